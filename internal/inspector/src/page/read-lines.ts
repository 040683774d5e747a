export async function* readLines(body: Response['body']): AsyncGenerator<string> {
  if (body === null) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  // a line may arrive in many parts; each part is searched only once
  let partialLine: string[] = []
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    const [lineEnd = '', ...lines] = value.split('\n')
    partialLine.push(lineEnd)
    if (lines.length === 0) continue
    yield partialLine.join('')
    partialLine = [lines.pop() ?? '']
    yield* lines
  }
  yield partialLine.join('')
}
