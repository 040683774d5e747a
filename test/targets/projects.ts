export interface EndToEndProject {
  readonly name: string
  readonly include: readonly string[]
}

export function endToEndProjects(): { name: string; include: string[]; testTimeout: number }[] {
  return []
}
