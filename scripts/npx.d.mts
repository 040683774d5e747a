export const NPX: readonly [program: string, ...args: string[]]
export function nodePackage(version: string): string | null
export function withoutNpm(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv
