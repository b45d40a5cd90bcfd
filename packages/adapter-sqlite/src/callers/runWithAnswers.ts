import type { RunResult, SqlValue } from "../SqliteDatabase.ts"
import type { Statements } from "../Transaction.ts"

/** A statement with its values. */
export interface SqlText {
  readonly sql: string
  readonly values: ReadonlyArray<SqlValue>
}

export interface Answer extends RunResult {
  readonly rows: ReadonlyArray<unknown>
}

/** Thrown by the first statement without an answer. */
class Unanswered extends Error {
  readonly text: SqlText
  constructor(text: SqlText) {
    super("not answered yet")
    this.text = text
  }
}

/** Answers statements in order from known answers. */
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
      run: answer,
    }
  }
}

/**
 * Runs a synchronous step on a connection that answers with promises: for every new answer, the step runs again from the start with
 * all answers so far. So both kinds of connections share one implementation. The step must be deterministic; with a dozen
 * statements, running it again costs less than one of them.
 */
export const runWithAnswers = async <A>(
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
