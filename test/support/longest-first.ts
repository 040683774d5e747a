import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take half a minute and more though they are small: vitest begins with the largest. */
const LONG =
  /test\/(docs\/readme\/readme|generated\/simulation\/(simulation|model)|server\/(transcripts|response-limit|schema-crash|other-program|use-database\/processes)|security\/(unsafe-functions|read-only|directory-lock))\.test\.ts$/

/** Begins with the files that take long, so that none of them is left for the end, when the other workers have nothing to do. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification): boolean => LONG.test(moduleId)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}
