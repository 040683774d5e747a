// Runs before `npm publish` and `pnpm publish`: nothing goes out with the address that stands for the repository's.
import { readFileSync } from 'node:fs'

if (/repository\.invalid/.test(readFileSync('package.json', 'utf8'))) {
  console.error(
    'This package still names https://repository.invalid/baton: put the address of the repository in its place, in package.json of every package.',
  )
  process.exit(1)
}
