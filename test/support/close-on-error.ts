/** Completes the set-up of a server, which is closed if that fails. @returns what `setUp` returns */
export async function closeOnError<Result>(
  server: { close(): Promise<unknown> },
  setUp: () => Promise<Result>,
): Promise<Result> {
  try {
    return await setUp()
  } catch (error) {
    await server.close()
    throw error
  }
}
