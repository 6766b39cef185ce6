"""What every run needs, whatever it trains: threads, schedule, progress, checkpoints, the divergence guard, memory."""

from embedx.training.checkpoint import *
from embedx.training.guard import *
from embedx.training.interrupts import *
from embedx.training.memory import *
from embedx.training.progress import *
from embedx.training.schedule import *
from embedx.training.state import *
from embedx.training.strategy import *
from embedx.training.trainer import *
