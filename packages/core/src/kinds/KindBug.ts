/** A bug in the code of a kind: a defect that fails the job immediately. Its text names only what the kind declares, so it is safe to log. */
export class KindBug extends TypeError {
  override readonly name = "KindBug"
  /** The original message. Code that catches the error can add to `message`. */
  readonly text: string

  constructor(text: string, options?: ErrorOptions) {
    super(text, options)
    this.text = text
  }
}
