"""What a pipeline file may say, one module a block. Unknown keys are refused everywhere."""

from headgate.pipelines.config.project import ProjectConfig

__all__ = ["ProjectConfig"]
