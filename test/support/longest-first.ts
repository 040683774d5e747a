import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Small files that take half a minute or longer. By default, vitest starts with the largest files. */
const SLOW_FILES =
  /test\/(docs\/readme\/readme|generated\/simulation\/(simulation|model)|server\/(transcripts|response-limit|schema-crash|other-program|use-database\/processes)|security\/(unsafe-functions|read-only|directory-lock))\.test\.ts$/

/** Starts with the slow files, so that none of them runs at the end, when the other workers are idle. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sortedFiles = await super.sort(files)
    const isSlow = ({ moduleId }: TestSpecification): boolean => SLOW_FILES.test(moduleId)
    return [...sortedFiles.filter(isSlow), ...sortedFiles.filter((file) => !isSlow(file))]
  }
}
