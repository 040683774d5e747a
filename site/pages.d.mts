interface Page {
  readonly from: string
  readonly title: string
  readonly about?: string
}
export const FACTS: readonly string[]
export const GROUPS: readonly { readonly title: string; readonly pages: readonly Page[] }[]
