/** Like the one of `node:assert`, so that test runners show `expected` next to `actual`. Works without Node. */
export class AssertionError extends Error {
  override readonly name = "AssertionError"
  readonly code = "ERR_ASSERTION"
  readonly actual: unknown
  readonly expected: unknown
  readonly operator: string

  constructor(operator: string, message: string, actual: unknown, expected: unknown) {
    super(message)
    this.operator = operator
    this.actual = actual
    this.expected = expected
  }
}
