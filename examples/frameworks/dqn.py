"""DI-engine's own example of DQN on CartPole (`ding.example.dqn`), with a goal that is reached soon.

Of all processes of the job, number 0 is the learner, 1 the evaluator, and the others are collectors.
"""

from ding.example import dqn


def main() -> None:
    """Learn until an episode has 50 steps on average; 195 is the usual goal."""
    dqn.main_config.env.stop_value = 50
    dqn.main()
