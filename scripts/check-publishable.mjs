// Runs before `npm publish` and `pnpm publish`: nothing goes out with the address that stands for the repository's.
import { readFileSync } from 'node:fs'

const files = ['package.json', '../../SECURITY.md']
const unready = files.filter((file) => /repository\.invalid/.test(readFileSync(file, 'utf8')))
if (unready.length > 0) {
  console.error(
    `${unready.join(' and ')}: names https://repository.invalid/baton; put the address of the repository in its place, in package.json of every package and in SECURITY.md.`,
  )
  process.exit(1)
}
