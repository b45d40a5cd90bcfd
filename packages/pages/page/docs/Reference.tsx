import { asObject, CodeSample, CopyButton, fieldsOf, type Json, type SampleRequest, summaryOf } from "@kiln/pages/ui"
import { config, exampleOf, type Operation, textOf } from "./openApi.ts"
import { Inline, Text } from "./Text.tsx"

const Method = ({ children }: { readonly children: string }) => (
  <span class={`method ${children.toLowerCase()}`}>{children}</span>
)

export const Home = ({
  document,
  operations,
}: {
  readonly document: Json
  readonly operations: ReadonlyArray<Operation>
}) => {
  const { description, title } = asObject(document["info"])
  const tags = (Array.isArray(document["tags"]) ? document["tags"] : []).map(asObject)
  const groups = [...Map.groupBy(operations, ({ tag }) => tag)]
  return (
    <article>
      <h1>{textOf(title)}</h1>
      {typeof description === "string" && <Text>{description}</Text>}
      <dl class="base">
        <dt>Base URL</dt>
        <dd>
          <code>{config.url}</code> <CopyButton text={config.url} />
        </dd>
        <dt>Authentication</dt>
        <dd>
          <code>Authorization: Bearer kiln_test_…</code>
        </dd>
      </dl>
      <p class="calls">
        <a class="call" href={`${config.url}/`}>
          Try it in the playground
        </a>
        <a href="#/guides/first-job">Read: a first job</a>
      </p>
      {groups.map(([tag, list]) => (
        <section key={tag}>
          <h2>{tag}</h2>
          <Text>{textOf(tags.find(({ name }) => name === tag)?.["description"])}</Text>
          <ul class="operations">
            {list.map(({ id, method, path, summary }) => (
              <li key={id}>
                <a href={`#/reference/${id}`}>
                  <Method>{method}</Method>
                  <code>{path}</code>
                  <span>{summary}</span>
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </article>
  )
}

const Fields = ({
  isRequest = false,
  label,
  schema,
  schemas,
}: {
  readonly label: string
  readonly schema: Json
  readonly schemas: Json
  /** Whether a reader has to know which fields to send. */
  readonly isRequest?: boolean
}) => {
  const fields = fieldsOf(schema, schemas)
  if (fields.length === 0) return null
  return (
    <dl class="fields" aria-label={label}>
      {fields.map(({ description, isRequired, name, schema: field }) => (
        <div key={name}>
          <dt>
            <code>{name}</code>
            <span class="type">{summaryOf(field, schemas)}</span>
            {isRequest && (isRequired ? <span class="required">required</span> : <span class="type">optional</span>)}
          </dt>
          <dd>
            <Inline>{description}</Inline>
          </dd>
        </div>
      ))}
    </dl>
  )
}

const sampleOf = ({ body, id, method, needsKey, path }: Operation, schemas: Json): SampleRequest => {
  const kind = config.kinds.find((one) => one.path === path && method === "POST")
  const example = body === undefined ? undefined : asObject(exampleOf(body, schemas))
  const { [kind?.upload ?? ""]: _, ...withoutUpload } = example ?? {}
  return {
    url: config.url,
    method,
    path: id === "putFile" || id === "getFile" || id === "headFile" ? `${path}?e=…&k=…&s=…` : path,
    needsKey,
    body: kind?.upload == null ? example : withoutUpload,
    ...(kind !== undefined && { poll: kind.poll }),
    ...(kind?.upload != null && { upload: { field: kind.upload, file: "question.wav", format: "wav", seconds: 12.5 } }),
  }
}

export const OperationView = ({ operation, schemas }: { readonly operation: Operation; readonly schemas: Json }) => {
  const { body, description, method, needsKey, parameters, path, responses, summary } = operation
  const kind = config.kinds.find((one) => one.path === path && method === "POST")
  const good = responses.filter(({ status }) => status.startsWith("2"))
  const bad = responses.filter(({ status }) => !status.startsWith("2"))
  return (
    <article class="operation">
      <div class="words">
        <h1>{summary}</h1>
        <p class="endpoint">
          <Method>{method}</Method> <code>{path}</code>
        </p>
        <Text>{description}</Text>
        {!needsKey && <p class="faint">No API key is needed.</p>}
        {kind !== undefined && (
          <p class="calls">
            <a class="call" href={`${config.url}/#${kind.name}`}>
              Try it
            </a>
          </p>
        )}
        {parameters.length > 0 && (
          <section>
            <h2>Parameters</h2>
            <dl class="fields" aria-label="Parameters">
              {parameters.map((parameter) => {
                const schema = asObject(parameter["schema"])
                return (
                  <div key={String(parameter["name"])}>
                    <dt>
                      <code>{String(parameter["name"])}</code>
                      <span class="type">
                        {String(parameter["in"])}, {summaryOf(schema, schemas)}
                      </span>
                      {parameter["required"] === true && <span class="required">required</span>}
                    </dt>
                    <dd>
                      <Inline>{textOf(parameter["description"] ?? schema["description"])}</Inline>
                    </dd>
                  </div>
                )
              })}
            </dl>
          </section>
        )}
        {body !== undefined && (
          <section>
            <h2>Body</h2>
            <Fields label="Body" schema={body} schemas={schemas} isRequest />
          </section>
        )}
        {good.map(({ description: about, schema, status }) => (
          <section key={status}>
            <h2>Response {status}</h2>
            <Text>{about}</Text>
            {schema !== undefined && <Fields label={`Response ${status}`} schema={schema} schemas={schemas} />}
          </section>
        ))}
        {bad.length > 0 && (
          <section>
            <h2>Errors</h2>
            <dl class="fields" aria-label="Errors">
              {bad.map(({ description: about, status }) => (
                <div key={status}>
                  <dt>
                    <code>{status}</code>
                  </dt>
                  <dd>
                    <Inline>{about}</Inline>
                  </dd>
                </div>
              ))}
            </dl>
            <p>
              <a href="#/errors">What to do about each</a>
            </p>
          </section>
        )}
      </div>
      <div class="samples">
        <CodeSample request={sampleOf(operation, schemas)} />
        {good.map(({ schema, status }) =>
          schema === undefined ? null : (
            <div class="code" key={status}>
              <div class="code-bar">
                <span class="faint">Response {status}</span>
              </div>
              <pre tabIndex={0} role="region" aria-label={`Example of response ${status}`}>
                <code>{JSON.stringify(exampleOf(schema, schemas), null, 2)}</code>
              </pre>
            </div>
          ),
        )}
      </div>
    </article>
  )
}
