// Runs before `npm publish` and `pnpm publish`: rejects packages that contain the placeholder for the repository's address.
import { readFileSync } from 'node:fs'

const files = ['package.json', '../../SECURITY.md']
const filesWithPlaceholder = files.filter((file) => /repository\.invalid/.test(readFileSync(file, 'utf8')))
if (filesWithPlaceholder.length > 0) {
  console.error(
    `${filesWithPlaceholder.join(' and ')}: replace the placeholder https://repository.invalid/baton with the address of the repository, in package.json of every package and in SECURITY.md.`,
  )
  process.exit(1)
}
