package llmhttp

import (
	"net/http"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/money"
)

// mistral is the adapter for what Mistral's API has beside that of OpenAI: agents, conversations
// and the completion of code.
//
// See https://docs.mistral.ai/api.
type mistral struct{ openAI }

func (mistral) Name() string { return "mistral" }

const (
	agentsCompletions = "agents.completions"
	fimCompletions    = "fim.completions"
	conversations     = "conversations"

	// unnamedConversation is the model of a conversation that goes on without naming one.
	unnamedConversation = "mistral-conversation"
)

func (mistral) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	path := req.URL.Path
	switch {
	case strings.HasSuffix(path, "/agents/completions"):
		call.Operation = agentsCompletions
	case strings.HasSuffix(path, "/fim/completions"):
		call.Operation = fimCompletions
	case isConversation(path) && !isOpenAI(req.URL.Hostname()):
		call.Operation = conversations
		call.continues = !strings.HasSuffix(path, "/conversations")
	default:
		return false
	}
	return true
}

// isConversation reports whether a path is one to begin a conversation, to go on with it, or to
// begin it anew from an entry. OpenAI has a path of that name under which nothing is generated, and
// which takes no inputs.
func isConversation(path string) bool {
	_, rest, ok := strings.Cut(path, "/conversations")
	if !ok || rest != "" && rest[0] != '/' {
		return false
	}
	id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	return action == "" || id != "" && action == "restart"
}

// Request takes the name of an agent for that of the model. A conversation that goes on names
// neither.
func (m mistral) Request(call *Call, v Value) {
	switch string(v.Path) {
	case "agent_id":
		if name := v.text(); name != "" {
			call.Model = name
		}
	case "model":
		if name := v.text(); name != "" {
			call.Model = name
		}
	case "inputs", "tool_confirmations":
		if call.Model == "" && call.Operation == conversations && v.Kind != Null {
			call.Model = unnamedConversation
		}
	case "items", "metadata":
		call.stores = call.Operation == conversations
	case "completion_args.max_tokens":
		if n, ok := tokenCount(v); ok {
			call.MaxOutput = n
		}
	default:
		m.openAI.Request(call, v)
	}
}

func (m mistral) Response(call *Call, usage *Usage, v Value) {
	switch string(v.Path) {
	case "usage.connector_tokens": // of the tools that the server calls, beside the prompt
		usage.Set(&usage.ToolUse, v)
	case "type":
		usage.final = v.text() == "conversation.response.done"
	case "status": // of an output
	default:
		m.openAI.Response(call, usage, v)
	}
}

// Count adds the tokens of tools to the prompt.
func (mistral) Count(_ *Call, usage *Usage) (prompt, output int) {
	return usage.Prompt + usage.ToolUse, usage.Output
}

// Bill adds the tokens of tools to the prompt.
func (m mistral) Bill(call *Call, usage *Usage) money.Usage {
	bill := m.openAI.Bill(call, usage)
	bill.Input += usage.ToolUse
	return bill
}

func (mistral) Refusal(message string) []byte {
	return refusalBody(`{"object":"error","message":`, message, `,"type":"rate_limited","param":null,"code":"1300"}`)
}

func (mistral) paths() []knownPath {
	const reference, agent = "https://docs.mistral.ai/api/endpoint/", "an agent counts under its id"
	return slices.Concat(
		pathsOf("Mistral", reference+"agents", countedFate, agent, "/v1/agents/completions"),
		pathsOf("Mistral", reference+"fim", countedFate, "", "/v1/fim/completions"),
		pathsOf("Mistral", reference+"beta/conversations", countedFate, agent+"; one of OpenAI generates nothing and passes",
			"/v1/conversations"),
		pathsOf("Mistral", reference+"beta/conversations", countedFate, "without a model it counts as "+unnamedConversation,
			"/v1/conversations/{id}", "/v1/conversations/{id}/restart"),
	)
}
