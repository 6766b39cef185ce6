"""The words of texts of two topics: those of each topic, and those of both."""

CATS = ["cat", "dog", "purr", "fur", "paw", "tail"]
CARS = ["car", "truck", "engine", "wheel", "road", "fuel"]
COMMON = ["the", "a", "and", "is"]
