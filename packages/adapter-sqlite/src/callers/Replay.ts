import type { SqlValue } from "../SqliteDatabase.ts"
import type { Statements } from "../Transaction.ts"

/** A statement with its values. */
export interface SqlText {
  readonly sql: string
  readonly values: ReadonlyArray<SqlValue>
}

export interface Answer {
  readonly rows: ReadonlyArray<unknown>
  readonly changes: number
}

/** Thrown by the first statement that has no answer yet. */
class Unanswered extends Error {
  readonly text: SqlText
  constructor(text: SqlText) {
    super("not answered yet")
    this.text = text
  }
}

/** Answers statements in their order with what is known already. */
class KnownAnswers implements Statements {
  readonly #answers: ReadonlyArray<Answer>
  #next = 0

  constructor(answers: ReadonlyArray<Answer>) {
    this.#answers = answers
  }

  get(sql: string) {
    const answer = (values: ReadonlyArray<SqlValue>): Answer => {
      const known = this.#answers[this.#next]
      if (known === undefined) throw new Unanswered({ sql, values })
      this.#next += 1
      return known
    }
    return {
      all: (values: ReadonlyArray<SqlValue>) => answer(values).rows,
      get: (values: ReadonlyArray<SqlValue>) => answer(values).rows[0],
      run: (values: ReadonlyArray<SqlValue>) => ({ changes: answer(values).changes }),
    }
  }
}

/**
 * Runs a synchronous step on a connection that answers with promises: from the start again for every answer, with all that came
 * before. So there is one decision for both, written once. The step must do the same whenever it is told the same; with
 * a dozen statements, repeating it costs less than one of them.
 */
export const replay = async <A>(
  step: (statements: Statements) => A,
  ask: (text: SqlText) => Promise<Answer>,
): Promise<A> => {
  const answers: Array<Answer> = []
  while (true) {
    try {
      return step(new KnownAnswers(answers))
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error
      answers.push(await ask(error.text))
    }
  }
}
