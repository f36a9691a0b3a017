"""Questions for long lists, generated from an index, and the recall of their walks."""
