"""Files of labelled examples: tables, folders, CoNLL columns, SQuAD JSON."""
