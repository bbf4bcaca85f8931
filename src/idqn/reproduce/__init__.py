"""The paper's tables and curves again, from run directories, beside the published numbers."""
