// npm run bench:pages: writes docs/performance.md and its folder from the stored results, without measuring again.
import { readFileSync } from 'node:fs'
import type { Results } from './lib/results.ts'
import { writePages } from './lib/write-pages.ts'

const RESULTS_FILE = new URL('results/results.json', import.meta.url)
writePages(JSON.parse(readFileSync(RESULTS_FILE, 'utf8')) as Results)
