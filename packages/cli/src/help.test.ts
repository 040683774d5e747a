import { expect, test } from 'vitest'
import { COMMANDS } from './command-table.ts'
import { formatHelp, overview } from './help.ts'

test('the overview lists every command, the help of a command lists its options, and no line is too long', () => {
  for (const command of COMMANDS) {
    const help = formatHelp(command)
    expect(overview()).toContain(`baton ${command.words.join(' ')}`)
    for (const name of Object.keys(command.options)) expect(help).toContain(`--${name}`)
    for (const line of `${help}${overview()}`.split('\n')) expect(line.length).toBeLessThanOrEqual(110)
  }
})
