import { type Command, type CommandInput, print } from './command-context.ts'
import type { NO_OPTIONS } from './option-table.ts'
import { readChoice } from './read-choice.ts'

export async function runCompletion({ operands, context }: CommandInput<typeof NO_OPTIONS>): Promise<void> {
  const [shell] = operands as [string]
  const shells = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[]
  const createScript = SCRIPTS[readChoice('baton completion: the shell', shells, shell)]
  await print(context, createScript(context.commands))
}

type Commands = readonly Command[]

/** Maps the preceding words, with a space before each, to possible next words. Longest first, because the first match is used. */
function nextWords(commands: Commands): Map<string, string[]> {
  const candidates = new Map<string, string[]>([['', []]])
  for (const command of commands) {
    const { words } = command
    for (const [index, word] of words.entries()) {
      const path = words
        .slice(0, index)
        .map((previousWord) => ` ${previousWord}`)
        .join('')
      const list = candidates.get(path) ?? []
      if (!list.includes(word)) list.push(word)
      candidates.set(path, list)
    }
    candidates.set(words.map((word) => ` ${word}`).join(''), [
      ...listChoices(command),
      ...listOptions(command),
    ])
  }
  return new Map([...candidates].toSorted(([a], [b]) => b.length - a.length))
}

/** Returns the alternatives of a command's operand; only `completion` has any. */
const listChoices = ({ words, operands = [] }: Command): string[] =>
  words[0] === 'completion' ? operands.flatMap((operand) => operand.split('|')) : []

const listOptions = ({ options }: Command): string[] => [
  ...Object.keys(options).map((name) => `--${name}`),
  '--help',
]

/** Returns the values of each option with a fixed set of values. */
function getChoicesByOption(commands: Commands): Map<string, readonly string[]> {
  const options = commands.flatMap(({ options }) => Object.entries(options))
  return new Map(
    options.flatMap(([name, spec]) => (spec.choices ? [[`--${name}`, spec.choices] as const] : [])),
  )
}

/** Returns the common part of the scripts for bash and zsh, which sets `candidates` from the previous word and all words before it. */
const caseStatements = (commands: Commands): string =>
  [
    '  case "$previous" in',
    ...[...getChoicesByOption(commands)].map(
      ([option, values]) => `    ${option}) candidates="${values.join(' ')}"; return ;;`,
    ),
    '  esac',
    '  case "$line" in',
    ...[...nextWords(commands)].map(
      ([path, words]) => `    "${path}"${path === '' ? '' : '*'}) candidates="${words.join(' ')}" ;;`,
    ),
    '  esac',
  ].join('\n')

function bashScript(commands: Commands): string {
  return `# bash completion for baton
_baton_candidates() {
  local line= word
  for word in "$@"; do [[ $word == -* ]] || line="$line $word"; done
  local previous="\${*: -1}"
  candidates=
${caseStatements(commands)}
}
_baton() {
  local candidates
  _baton_candidates "\${COMP_WORDS[@]:1:COMP_CWORD-1}"
  COMPREPLY=($(compgen -W "$candidates" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _baton baton
`
}

function zshScript(commands: Commands): string {
  return `#compdef baton
_baton_candidates() {
  local line= word previous="\${@[-1]}"
  for word in "$@"; do [[ $word == -* ]] || line="$line $word"; done
  candidates=
${caseStatements(commands)}
}
_baton() {
  local candidates
  _baton_candidates "\${(@)words[2,CURRENT-1]}"
  compadd -- \${=candidates} || _files
}
if [[ $funcstack[1] == _baton ]]; then _baton "$@"; else compdef _baton baton; fi
`
}

const quoteForFish = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

function fishScript(commands: Commands): string {
  const lines = ['# fish completion for baton']
  const firstWords = new Set(commands.map(({ words }) => words[0] as string))
  for (const word of firstWords) {
    const group = commands.filter(({ words }) => words[0] === word)
    const description = group.length === 1 ? ` -d ${quoteForFish(group[0]?.summary ?? '')}` : ''
    lines.push(`complete -c baton -n __fish_use_subcommand -a ${word}${description}`)
  }
  for (const command of commands) {
    const [firstWord, secondWord] = command.words as [string, string?]
    const afterFirstWord = `__fish_seen_subcommand_from ${firstWord}`
    if (secondWord !== undefined)
      lines.push(
        `complete -c baton -f -n '${afterFirstWord}' -a ${secondWord} -d ${quoteForFish(command.summary)}`,
      )
    for (const choice of listChoices(command))
      lines.push(`complete -c baton -f -n '${afterFirstWord}' -a ${choice}`)
    const condition =
      secondWord === undefined
        ? afterFirstWord
        : `${afterFirstWord}; and __fish_seen_subcommand_from ${secondWord}`
    for (const [name, { short, type, choices, help }] of Object.entries(command.options)) {
      const letter = short === undefined ? '' : ` -s ${short}`
      const value = type === 'boolean' ? '' : choices ? ` -x -a '${choices.join(' ')}'` : ' -r'
      lines.push(`complete -c baton -n '${condition}' -l ${name}${letter}${value} -d ${quoteForFish(help)}`)
    }
  }
  return `${lines.join('\n')}\n`
}

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript }
