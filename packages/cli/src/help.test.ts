// Checks that the documentation page of the command matches its help. UPDATE_DOCS=1 updates the page.
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { COMMANDS } from './command-table.ts'
import { commandPage, formatHelp, overview } from './help.ts'

const PAGE = new URL('../docs/command.md', import.meta.url)
const MARK = '<!-- the commands -->\n'

test('the page lists every command with its options', () => {
  const page = readFileSync(PAGE, 'utf8')
  const head = page.slice(0, page.indexOf(MARK) + MARK.length)
  const expectedPage = `${head}\n${commandPage()}`
  if (process.env['UPDATE_DOCS'] !== undefined) writeFileSync(PAGE, expectedPage)
  expect(readFileSync(PAGE, 'utf8'), 'UPDATE_DOCS=1 updates the page').toBe(expectedPage)
})

test('the overview lists every command, the help of a command lists its options, and no line is too long', () => {
  for (const command of COMMANDS) {
    const help = formatHelp(command)
    expect(overview()).toContain(`baton ${command.words.join(' ')}`)
    for (const name of Object.keys(command.options)) expect(help).toContain(`--${name}`)
    for (const line of `${help}${overview()}`.split('\n')) expect(line.length).toBeLessThanOrEqual(110)
  }
})
