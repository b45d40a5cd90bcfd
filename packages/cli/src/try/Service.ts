/** A service, and a key for it. */
export interface Service {
  readonly url: string
  readonly key: string
}
