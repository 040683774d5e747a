import type { Measurement } from './results.ts'

const WIDTH = 760
const LABEL_WIDTH = 250
const BAR_HEIGHT = 14
const BAR_GAP = 4
const STYLE = `text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-size:14px;font-weight:600}.q{font-weight:600}
.b{fill:#8c959f}.o{fill:#1a7f64}.l{stroke:#24292f;stroke-dasharray:3 3}.bg{fill:#fff}.n{stroke:#fff;stroke-width:3;paint-order:stroke}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#6e7681}.o{fill:#3fb68b}.l{stroke:#e6edf3}.bg{fill:#0d1117}.n{stroke:#0d1117}}`

const escapeXml = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

/** Draws ratios as bars, in a group for each operation, with a line at the baseline. */
export function drawRatios(title: string, measurements: readonly Measurement[]): string {
  const maxRatio = Math.max(1.05, ...measurements.map(({ ratio }) => ratio)) * 1.08
  const toX = (ratio: number): number => LABEL_WIDTH + (ratio / maxRatio) * (WIDTH - LABEL_WIDTH - 60)
  const parts: string[] = []
  let y = 34
  for (const operation of new Set(measurements.map((measurement) => measurement.operation))) {
    parts.push(`<text class="q" x="10" y="${y + 12}">${escapeXml(operation)}</text>`)
    y += 20
    for (const measurement of measurements.filter((candidate) => candidate.operation === operation)) {
      const kind = /baton/.test(measurement.subject) ? 'o' : 'b'
      parts.push(
        `<text x="${LABEL_WIDTH - 8}" y="${y + 11}" text-anchor="end">${escapeXml(measurement.subject)}</text>`,
        `<rect class="${kind}" x="${LABEL_WIDTH}" y="${y}" width="${(toX(measurement.ratio) - LABEL_WIDTH).toFixed(1)}" height="${BAR_HEIGHT}" rx="2"/>`,
        `<text class="n" x="${(toX(measurement.ratio) + 6).toFixed(1)}" y="${y + 11}">${measurement.ratio.toFixed(2)}</text>`,
      )
      y += BAR_HEIGHT + BAR_GAP
    }
    y += 8
  }
  const line = toX(1).toFixed(1)
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y + 8}" viewBox="0 0 ${WIDTH} ${y + 8}" role="img" aria-label="${escapeXml(title)}">
<style>${STYLE}</style>
<rect class="bg" width="100%" height="100%"/>
<text class="t" x="10" y="20">${escapeXml(title)}</text>
<line class="l" x1="${line}" x2="${line}" y1="30" y2="${y}"/>
${parts.join('\n')}
</svg>
`
}
