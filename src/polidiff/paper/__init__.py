"""The paper's figures, sentences and values, made again and compared (Yao et al. 2022, arXiv 2207.06269).

``runs`` computes everything once, ``values`` (with ``chain_values`` and ``navigation_values``) states what should come
out, ``expectation`` compares, ``figures`` draws, ``page`` writes.
"""
