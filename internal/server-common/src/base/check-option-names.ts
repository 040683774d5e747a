/** Rejects unknown options, so that a typo is not silently ignored. */
export function checkOptionNames(subject: string, options: object, knownNames: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (!knownNames.includes(name)) {
      throw new TypeError(`${subject}: unknown option "${name}" (known: ${knownNames.join(', ')})`)
    }
  }
}
