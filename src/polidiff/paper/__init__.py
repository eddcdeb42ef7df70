"""The paper's figures, sentences and values, made again and compared (Yao et al. 2022, arXiv 2207.06269).

``runs`` computes everything once, ``sentences`` holds the paper's text as facts, ``values`` states what should come out
and compares, ``figures`` draws, ``page`` writes.
"""
