package cli

// client is a program or library that can be told another base URL, and how it is told.
type client struct {
	name  string
	about string
	ways  []way // one for each provider that it speaks to
	// source is the page or package that says so, and read the day it was read. After "run" comes a
	// version that was started with these lines, and whose requests were seen to come.
	source, read string
}

// way is how a client is given the base URL of one provider. In its texts {url} stands for that
// base URL without a path of the API, and {key:NAME} for the environment variable NAME.
type way struct {
	provider string
	file     string     // to be edited with text; empty when text is for the shell
	vars     []variable // environment variables
	text     string
	code     string // the same for a program that sets it itself
}

// variable is an environment variable and its value.
type variable struct{ name, value string }

// The providers, as upstreams are named after them.
const (
	openai    = "openai"
	anthropic = "anthropic"
	gemini    = "gemini"
)

var (
	openaiURL    = []variable{{"OPENAI_BASE_URL", "{url}/v1"}}
	anthropicURL = []variable{{"ANTHROPIC_BASE_URL", "{url}"}}
	geminiURL    = []variable{{"GOOGLE_GEMINI_BASE_URL", "{url}"}}
)

// agents are programs that people talk to.
var agents = []client{
	{
		name: "claude", about: "Claude Code",
		// With a base URL it does without tool search, unless it is told that the proxy knows it.
		ways:   []way{{provider: anthropic, vars: []variable{{"ANTHROPIC_BASE_URL", "{url}"}, {"ENABLE_TOOL_SEARCH", "true"}}}},
		source: "code.claude.com/docs/en/env-vars; run: npm @anthropic-ai/claude-code 2.1.197", read: "2026-11-27",
	},
	{
		name: "codex", about: "Codex",
		// It no longer reads OPENAI_BASE_URL. model_providers cannot change its built-in provider,
		// which speaks by WebSocket at openai_base_url.
		ways: []way{{provider: openai, file: "~/.codex/config.toml, the first line above every [table]", text: `model_provider = "ratelimit"

[model_providers.ratelimit]
name = "OpenAI through ratelimit"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"`}},
		source: "developers.openai.com/codex/config-advanced; run: npm @openai/codex 0.171.0", read: "2026-11-27",
	},
	{
		name: "opencode", about: "opencode",
		ways: []way{
			{provider: anthropic, file: "opencode.json", text: opencodeJSON("anthropic", "/v1")},
			{provider: openai, file: "opencode.json", text: opencodeJSON("openai", "/v1")},
			{provider: gemini, file: "opencode.json", text: opencodeJSON("google", "/v1beta")},
		},
		source: "opencode.ai/docs/providers; run: npm opencode-ai 1.18.33", read: "2026-11-27",
	},
	{
		name: "gemini-cli", about: "Gemini CLI",
		// With a base URL alone it picks a way to authenticate that it then refuses.
		ways: []way{
			{provider: gemini, vars: geminiURL},
			{provider: gemini, file: "~/.gemini/settings.json", text: `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`},
		},
		source: "run: npm @google/gemini-cli 0.61.0", read: "2026-11-27",
	},
	{
		name: "aider", about: "aider",
		ways: []way{
			{provider: openai, vars: []variable{{"OPENAI_API_BASE", "{url}/v1"}}},
			{provider: anthropic, vars: []variable{{"ANTHROPIC_API_BASE", "{url}"}}},
		},
		source: "aider.chat/docs/llms/openai-compat.html, github.com/Aider-AI/aider/issues/1182", read: "2026-11-27",
	},
}

func opencodeJSON(provider, path string) string {
	return `{
  "$schema": "https://opencode.ai/config.json",
  "provider": {
    "` + provider + `": { "options": { "baseURL": "{url}` + path + `" } }
  }
}`
}

// libraries are what programs are written with.
var libraries = []client{
	{
		name: "openai-python", about: "OpenAI's library for Python",
		ways:   []way{{provider: openai, vars: openaiURL, code: `OpenAI(base_url="{url}/v1")`}},
		source: "github.com/openai/openai-python src/openai/_client.py", read: "2026-11-27",
	},
	{
		name: "openai-node", about: "OpenAI's library for Node",
		ways:   []way{{provider: openai, vars: openaiURL, code: `new OpenAI({ baseURL: "{url}/v1" })`}},
		source: "run: npm openai 6.49.0", read: "2026-11-27",
	},
	{
		name: "openai-go", about: "OpenAI's library for Go",
		ways:   []way{{provider: openai, vars: openaiURL, code: `openai.NewClient(option.WithBaseURL("{url}/v1/"))`}},
		source: "github.com/openai/openai-go client.go", read: "2026-11-27",
	},
	{
		name: "anthropic-python", about: "Anthropic's library for Python",
		ways:   []way{{provider: anthropic, vars: anthropicURL, code: `Anthropic(base_url="{url}")`}},
		source: "github.com/anthropics/anthropic-sdk-python src/anthropic/_client.py", read: "2026-11-27",
	},
	{
		name: "anthropic-ts", about: "Anthropic's library for TypeScript",
		ways:   []way{{provider: anthropic, vars: anthropicURL, code: `new Anthropic({ baseURL: "{url}" })`}},
		source: "run: npm @anthropic-ai/sdk 1.14.0", read: "2026-11-27",
	},
	{
		name: "anthropic-go", about: "Anthropic's library for Go",
		ways:   []way{{provider: anthropic, vars: anthropicURL, code: `anthropic.NewClient(option.WithBaseURL("{url}"))`}},
		source: "github.com/anthropics/anthropic-sdk-go 1.84.0 client.go", read: "2026-11-27",
	},
	{
		name: "google-genai", about: "Google's library for Python, and for JavaScript",
		ways: []way{{provider: gemini, vars: geminiURL, code: `genai.Client(http_options={"base_url": "{url}"})
new GoogleGenAI({ httpOptions: { baseUrl: "{url}" } })`}},
		source: "github.com/googleapis/python-genai google/genai/_base_url.py; run: npm @google/genai 2.32.0", read: "2026-11-27",
	},
	{
		name: "litellm", about: "LiteLLM",
		ways: []way{
			{provider: openai, vars: openaiURL, code: `litellm.completion(model="openai/…", api_base="{url}/v1", …)`},
			{provider: anthropic, vars: []variable{{"ANTHROPIC_API_BASE", "{url}"}}, code: `litellm.completion(model="anthropic/…", api_base="{url}", …)`},
		},
		source: "github.com/BerriAI/litellm litellm/main.py", read: "2026-11-27",
	},
	{
		name: "langchain", about: "LangChain, for Python and for JavaScript",
		ways: []way{
			{provider: openai, vars: []variable{{"OPENAI_API_BASE", "{url}/v1"}}, code: `ChatOpenAI(base_url="{url}/v1")
new ChatOpenAI({ configuration: { baseURL: "{url}/v1" } })`},
			{provider: anthropic, vars: []variable{{"ANTHROPIC_API_URL", "{url}"}}, code: `ChatAnthropic(base_url="{url}")
new ChatAnthropic({ anthropicApiUrl: "{url}" })`},
		},
		source: "reference.langchain.com/python/langchain-anthropic; npm @langchain/openai and @langchain/anthropic", read: "2026-11-27",
	},
	{
		name: "ai-sdk", about: "Vercel's AI SDK",
		// Its variables have the names of others', which want another path there, so it gets none.
		ways: []way{
			{provider: openai, text: `createOpenAI({ baseURL: "{url}/v1" })`},
			{provider: anthropic, text: `createAnthropic({ baseURL: "{url}/v1" })`},
			{provider: gemini, text: `createGoogleGenerativeAI({ baseURL: "{url}/v1beta" })`},
		},
		source: "npm @ai-sdk/openai, @ai-sdk/anthropic, @ai-sdk/google", read: "2026-11-27",
	},
	{
		name: "curl", about: "curl, or any other client of HTTP",
		ways: []way{
			{provider: openai, text: `curl {url}/v1/responses -H 'Content-Type: application/json' -H "Authorization: Bearer {key:OPENAI_API_KEY}" -d '{"model": "gpt-5.4-mini", "input": "Hello"}'`},
			{provider: anthropic, text: `curl {url}/v1/messages -H 'Content-Type: application/json' -H 'anthropic-version: 2023-06-01' -H "x-api-key: {key:ANTHROPIC_API_KEY}" -d '{"model": "claude-haiku-4-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}'`},
			{provider: gemini, text: `curl {url}/v1beta/models/gemini-3.8-flash:generateContent -H 'Content-Type: application/json' -H "x-goog-api-key: {key:GEMINI_API_KEY}" -d '{"contents": [{"parts": [{"text": "Hello"}]}]}'`},
		},
		source: "developers.openai.com, platform.claude.com, ai.google.dev", read: "2026-11-27",
	},
}
