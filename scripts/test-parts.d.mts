export function vitestArguments(args: readonly string[]): string[]
