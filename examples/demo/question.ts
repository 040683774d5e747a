/** A question about the data, written with one ORM. */
export interface Question {
  readonly title: string
  run(): Promise<readonly object[]>
}

export const TITLES = {
  medals: 'Which nations won the most gold medals? (join, aggregate)',
  height: 'Who are the tallest medallists, by sport? (three joins, having)',
  pizza: 'Which pizza earned the most each month? (window function)',
  page: 'The third page of rowers (pagination)',
  tree: 'The tallest young athletes, with sport and medals (relations)',
} as const

export const ROWING = 'rowing'
export const PAGE = { size: 5, number: 3 } as const
