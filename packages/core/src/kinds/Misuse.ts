/**
 * A mistake of a kind's author: a defect, in words of kiln's own. They name nothing but what the kind declares, so that the
 * log may have them.
 */
export class Misuse extends TypeError {
  override readonly name = "Misuse"
  /** Kept apart from the message, which whoever catches it may add to. */
  readonly words: string

  constructor(words: string) {
    super(words)
    this.words = words
  }
}
