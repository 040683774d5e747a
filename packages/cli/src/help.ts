import type { Command } from './command-context.ts'
import { COMMANDS } from './command-table.ts'
import type { OptionSpec } from './option-table.ts'
import { PACKAGE_VERSION } from './package-version.ts'

const WIDTH = 110
/** Column of the help texts of options. */
const INDENT = 28

const EXIT_CODES = [
  ['0', 'Success.'],
  [
    '1',
    'Failure: a server rejected a request or could not be reached, or a file could not be read or written.',
  ],
  ['2', 'The command line is invalid, or names an input file that cannot be opened; nothing was done.'],
  ['130, 143', 'Interrupted with Ctrl-C, or with SIGTERM. (`baton dev` and `baton serve` exit with 0.)'],
] as const

/** Returns the usage of a command: `baton sql [URL|NAME] [STATEMENTS] [options]`. */
export function formatUsage({ words, operands = [], options, takesCommand = false }: Command): string {
  const hasOptions = Object.keys(options).length > 0
  const command = takesCommand ? ['-- COMMAND …'] : []
  return ['baton', ...words, ...operands, ...(hasOptions ? ['[options]'] : []), ...command].join(' ')
}

/** Returns the output of `baton --help`. */
export function overview(): string {
  const commands = COMMANDS.map((command) => `  ${formatUsage(command)}\n${wrap(command.summary, 6)}`)
  return [
    `baton ${PACKAGE_VERSION}`,
    commands.join('\n'),
    '  baton COMMAND --help\n  baton --version',
    'Exit codes:',
    EXIT_CODES.map(([code, meaning]) => `  ${code.padEnd(4)} ${meaning}`).join('\n'),
    'Without an installation, use `npx @batonsql/cli` instead of `baton`.\n',
  ].join('\n\n')
}

/** Returns the output of `baton COMMAND --help`. */
export function formatHelp(command: Command): string {
  const { summary, details, options } = command
  const lines = Object.entries(options).map(([name, spec]) => optionLine(name, spec))
  const parts = [formatUsage(command), wrap(summary, 2)]
  if (details !== undefined) parts.push(wrap(details, 2))
  if (lines.length > 0) parts.push(lines.join('\n'))
  return `${parts.join('\n\n')}\n`
}

/** Returns the usage of an option: `-f, --file FILE`. */
const optionUsage = (name: string, { short, value }: OptionSpec): string =>
  `${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`

function optionLine(name: string, spec: OptionSpec): string {
  const usage = `  ${optionUsage(name, spec)}`
  const text = wrap(spec.help, INDENT)
  return usage.length < INDENT ? usage.padEnd(INDENT) + text.slice(INDENT) : `${usage}\n${text}`
}

/** Wraps text into indented lines of at most {@link WIDTH} characters. */
function wrap(text: string, indent: number): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent + line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((wrapped) => ' '.repeat(indent) + wrapped).join('\n')
}

export function commandPage(): string {
  const sections = COMMANDS.map((command) => {
    const { words, summary, details, options } = command
    const rows = Object.entries(options).map(
      ([name, spec]) => `| \`${escapeCell(optionUsage(name, spec))}\` | ${escapeCell(spec.help)} |`,
    )
    return [
      `## baton ${words.join(' ')}`,
      `\`\`\`\n${formatUsage(command)}\n\`\`\``,
      details === undefined ? summary : `${summary} ${details}`,
      ...(rows.length > 0 ? [['| option | |', '|---|---|', ...rows].join('\n')] : []),
    ].join('\n\n')
  })
  const codes = EXIT_CODES.map(([code, meaning]) => `| ${code} | ${escapeCell(meaning)} |`)
  return `${[...sections, ['## Exit codes', '', '| code | |', '|---|---|', ...codes].join('\n')].join('\n\n')}\n`
}

const escapeCell = (text: string): string => text.replaceAll('|', '\\|')
