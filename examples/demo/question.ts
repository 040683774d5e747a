/** A question to the data, asked in the words of one ORM. */
export interface Question {
  readonly title: string
  answer(): Promise<readonly object[]>
}

export const TITLES = {
  medals: 'Which nations won most? (join, aggregate)',
  height: 'Who are the tallest medallists, by sport? (three joins, having)',
  pizza: 'Which pizza earned most in each month? (window function)',
  page: 'The third page of the rowers (pagination)',
  tree: 'The tallest of the young, with sport and medals (relations)',
} as const

export const ROWING = 'rowing'
export const PAGE = { size: 5, number: 3 } as const
