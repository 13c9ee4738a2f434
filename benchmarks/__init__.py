# benchmarks print ratios; they are run by hand, never as tests
