/** The snippets marked `ts no-run`, by their file and in its order, each with what keeps a test from running it. */
export const notRun: Readonly<Record<string, ReadonlyArray<string>>> = {
  "docs/guides/adapters.md": [
    "The whole conformance suite: minutes. The same file runs in packages/adapter-sqlite/test.",
  ],
  "docs/guides/openai.md": [
    "Needs a running service with OpenAI's API. packages/cli/test/openAi.system.ts runs the same.",
  ],
  "docs/guides/transactions.md": [
    "Needs a Postgres server of the reader's. examples/transactional-enqueue runs the same.",
    "Continues within the reader's program. examples/transactional-enqueue runs the same.",
  ],
  "packages/adapter-postgres/README.md": ["Needs a Postgres server of the reader's."],
  "packages/adapter-s3/README.md": [
    "Needs a bucket of the reader's. packages/adapter-s3/test runs the same on a server.",
  ],
  "packages/client/README.md": [
    "Needs a running service and its key. docs/guides/client.md starts one and runs the same.",
  ],
  "packages/provider-http/README.md": ["Calls a host that is not there."],
}
