// Counts the work of text scans, so that a test can compare inputs of two lengths without measuring time: every regular expression
// is matched once more by a small backtracking matcher that counts its steps, as V8's does them; searches for fixed text count the
// characters that they pass.

type Step =
  | { readonly type: 'char'; readonly test: (code: number) => boolean; readonly next: Step }
  | { readonly type: 'split'; first: Step; second: Step }
  | { readonly type: 'assert'; readonly holds: (text: string, at: number) => boolean; readonly next: Step }
  | {
      readonly type: 'look'
      readonly body: Step
      readonly behind: boolean
      readonly negative: boolean
      readonly next: Step
    }
  | { readonly type: 'save'; readonly slot: number; readonly next: Step }
  | { readonly type: 'back'; readonly group: number; readonly next: Step }
  | { readonly type: 'end' }

/** Builds the steps before `next`. */
type Part = (next: Step) => Step

const nativeExec = RegExp.prototype.exec
const nativeIndexOf = String.prototype.indexOf
const matches = (pattern: RegExp, text: string): RegExpExecArray | null => nativeExec.call(pattern, text)
const END: Step = { type: 'end' }

/** Parses a regular expression with the syntax that this repository uses. */
class Compiler {
  readonly #source: string
  readonly #flags: string
  #at = 0
  #groups = 0

  constructor({ source, ignoreCase, unicode }: RegExp) {
    this.#source = source
    this.#flags = (ignoreCase ? 'i' : '') + (unicode ? 'u' : '')
  }

  compile(): Step {
    return this.#alternatives()(END)
  }

  #accept(text: string): boolean {
    if (!this.#source.startsWith(text, this.#at)) return false
    this.#at += text.length
    return true
  }

  #alternatives(): Part {
    const first = this.#sequence()
    if (!this.#accept('|')) return first
    const others = this.#alternatives()
    return (next) => ({ type: 'split', first: first(next), second: others(next) })
  }

  #sequence(): Part {
    const parts: Part[] = []
    while (this.#at < this.#source.length && !'|)'.includes(this.#source[this.#at] as string))
      parts.push(this.#quantified(this.#atom()))
    return (next) => parts.reduceRight((following, part) => part(following), next)
  }

  #quantified(part: Part): Part {
    const range = matches(/^(?:[*+?]|\{(\d+)(,?)(\d*)\})/, this.#source.slice(this.#at))
    if (!range) return part
    const [text, low, comma, high] = range
    this.#at += text.length
    const isLazy = this.#accept('?')
    const min = low === undefined ? Number(text === '+') : Number(low)
    const max = low === undefined ? (text === '?' ? 1 : Infinity) : !comma ? min : Number(high || Infinity)
    const choose = (more: Step, next: Step): Step =>
      isLazy ? { type: 'split', first: next, second: more } : { type: 'split', first: more, second: next }
    const optional = (count: number, next: Step): Step =>
      count === 0 ? next : choose(part(optional(count - 1, next)), next)
    const repeat = (next: Step): Step => {
      const loop: Step & { type: 'split' } = { type: 'split', first: next, second: next }
      loop[isLazy ? 'second' : 'first'] = part(loop)
      return loop
    }
    return (next) => {
      let step = max === Infinity ? repeat(next) : optional(max - min, next)
      for (let count = 0; count < min; count++) step = part(step)
      return step
    }
  }

  #atom(): Part {
    const look = matches(/^\(\?(<?)([=!])/, this.#source.slice(this.#at))
    if (look) {
      this.#at += look[0].length
      const body = this.#group()(END)
      const [, behind, sign] = look
      return (next) => ({ type: 'look', body, behind: behind === '<', negative: sign === '!', next })
    }
    if (this.#accept('(?:')) return this.#group()
    if (this.#accept('(')) {
      const name = matches(/^\?<\w+>/, this.#source.slice(this.#at))
      this.#at += name?.[0].length ?? 0
      this.#groups += 1
      const slot = this.#groups * 2
      const body = this.#group()
      return (next) => ({ type: 'save', slot, next: body({ type: 'save', slot: slot + 1, next }) })
    }
    const [source] = matches(
      /^(?:\\u[\da-f]{4}|\\p\{\w+\}|\\[^]|\[(?:\\[^]|[^\]\\])*\]|[^])/i,
      this.#source.slice(this.#at),
    ) as RegExpExecArray
    this.#at += source.length
    if (source === '^' || source === '$')
      return this.#assert((text, at) => at === (source === '^' ? 0 : text.length))
    if (source === '\\b') return this.#assert((text, at) => isWord(text[at - 1]) !== isWord(text[at]))
    if (matches(/^\\[1-9]$/, source)) return (next) => ({ type: 'back', group: Number(source[1]), next })
    const pattern = new RegExp(`^${source}$`, this.#flags)
    const cache: boolean[] = []
    const test = (code: number): boolean =>
      (cache[code] ??= matches(pattern, String.fromCharCode(code)) !== null)
    return (next) => ({ type: 'char', test, next })
  }

  readonly #assert =
    (holds: (text: string, at: number) => boolean): Part =>
    (next) => ({ type: 'assert', holds, next })

  #group(): Part {
    const part = this.#alternatives()
    if (!this.#accept(')')) throw new Error(`not understood: ${this.#source}`)
    return part
  }
}

/** Ends an expression that takes exponential time. */
const MAX_STEPS = 50_000_000

const isWord = (char: string | undefined): boolean => char !== undefined && matches(/^\w$/, char) !== null

const programs = new WeakMap<RegExp, Step>()
/** Those of expressions that are created for each call. */
const programsByText = new Map<string, Step>()

function programOf(pattern: RegExp): Step {
  let program = programs.get(pattern)
  if (program === undefined) {
    const text = String(pattern)
    program = programsByText.get(text) ?? new Compiler(pattern).compile()
    programsByText.set(text, program)
    programs.set(pattern, program)
  }
  return program
}

/** Matches at one position. @returns the end of the match, or null */
function matchAt(program: Step, text: string, start: number, count: () => void): number | null {
  type State = { step: Step; at: number; saved: readonly number[] }
  const stack: State[] = [{ step: program, at: start, saved: [] }]
  for (let state = stack.pop(); state; state = stack.pop()) {
    let { step, at, saved } = state
    for (let isAlive = true; isAlive; ) {
      count()
      switch (step.type) {
        case 'end':
          return at
        case 'char':
          isAlive = at < text.length && step.test(text.charCodeAt(at))
          at += 1
          break
        case 'split':
          stack.push({ step: step.second, at, saved })
          step = step.first
          continue
        case 'assert':
          isAlive = step.holds(text, at)
          break
        case 'look':
          isAlive = isMatchAround(step, text, at, count) !== step.negative
          break
        case 'save':
          saved = Object.assign([...saved], { [step.slot]: at })
          break
        case 'back': {
          const part = text.slice(saved[step.group * 2], saved[step.group * 2 + 1])
          isAlive = text.startsWith(part, at)
          at += part.length
        }
      }
      step = step.next
    }
  }
  return null
}

/** Whether a lookaround matches. A lookbehind has one character. */
function isMatchAround(look: Step & { type: 'look' }, text: string, at: number, count: () => void): boolean {
  if (!look.behind) return matchAt(look.body, text, at, count) !== null
  return at > 0 && matchAt(look.body, text, at - 1, count) === at
}

function replaceMethods(exec: typeof nativeExec, indexOf: typeof nativeIndexOf): void {
  Object.assign(RegExp.prototype, { exec })
  Object.assign(String.prototype, { indexOf })
}

/** Runs a function, and returns the number of steps of its regular expressions and searches. */
export function countSteps(run: () => unknown): number {
  let steps = 0
  const count = (): void => {
    steps += 1
    if (steps > MAX_STEPS) throw new Error('too many steps')
  }
  const exec = function (this: RegExp, text: string): RegExpExecArray | null {
    const from = this.global || this.sticky ? this.lastIndex : 0
    const program = programOf(this)
    let end: number | null = null
    let at = from
    for (; at <= text.length; at++) {
      end = matchAt(program, text, at, count)
      if (end !== null || this.sticky) break
    }
    // afterwards, because one that takes exponential time would not return
    const result = nativeExec.call(this, text)
    if (end !== (result && result.index + result[0].length)) throw new Error(`counted wrongly: ${this}`)
    return result
  }
  const indexOf = function (this: string, part: string, from = 0): number {
    const index = nativeIndexOf.call(this, part, from)
    steps += (index < 0 ? this.length : index) - from + 1
    return index
  }
  replaceMethods(exec, indexOf)
  try {
    run()
  } finally {
    replaceMethods(nativeExec, nativeIndexOf)
  }
  return steps
}
