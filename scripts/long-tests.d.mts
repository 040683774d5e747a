export const LONG_TESTS: Readonly<Record<string, object>>
