package llmhttp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"dappco.re/go/core/go-ratelimit/money"
)

// apart is an adapter that does not know what is billed.
type apart struct{ Adapter }

// Each token is billed once, as the provider of the API counts.
func TestBill(t *testing.T) {
	usage := Usage{Prompt: 100, CacheRead: 30, CacheWrite: 20, ToolUse: 5, Output: 40, Thoughts: 7, Known: true}
	for _, tt := range []struct {
		adapter Adapter
		want    money.Usage
	}{
		{openAI{}, money.Usage{Input: 50, CachedInput: 30, CacheWrite: 20, Output: 47}},
		{anthropic{}, money.Usage{Input: 100, CachedInput: 30, CacheWrite: 20, Output: 40}},
		{gemini{}, money.Usage{Input: 75, CachedInput: 30, Output: 47}},
		{ollama{}, money.Usage{Input: 100, Output: 40}},
		{apart{ollama{}}, money.Usage{Input: 105, CachedInput: 30, CacheWrite: 20, Output: 47}},
	} {
		if got := billOf(tt.adapter, &Call{}, &usage); got != tt.want {
			t.Errorf("%T: %+v, want %+v", tt.adapter, got, tt.want)
		}
	}
	odd := Usage{Prompt: 10, CacheRead: 30, CacheWrite: 20}
	for _, a := range adapters {
		if got := billOf(a, &Call{}, &odd); got.Input < 0 {
			t.Errorf("%s: %+v", a.Name(), got)
		}
	}
}

// What answers and requests say of the service tier, and of what is written to a cache for an hour.
func TestBillTerms(t *testing.T) {
	value := func(path, text string) Value {
		return Value{Path: []byte(path), Kind: String, Text: []byte(text), Size: len(text)}
	}
	count := func(path, text string) Value { return Value{Path: []byte(path), Kind: Number, Text: []byte(text)} }
	header := func(name, text string) http.Header { return http.Header{name: {text}} }
	for _, tt := range []struct {
		name            string
		adapter         Adapter
		request, answer []Value
		header          http.Header
		want            money.Usage
	}{
		{"OpenAI says what served", openAI{}, []Value{value("service_tier", "auto")}, []Value{value("service_tier", "priority")}, nil, money.Usage{ServiceTier: money.Priority}},
		{"its responses, streamed", openAI{}, nil, []Value{value("response.service_tier", "flex")}, nil, money.Usage{ServiceTier: money.Flex}},
		{"one that was asked for and not served", openAI{}, []Value{value("service_tier", "priority")}, []Value{value("service_tier", "default")}, nil, money.Usage{ServiceTier: money.Standard}},
		{"one that was asked for, of which the answer says nothing", openAI{}, []Value{value("service_tier", "flex")}, nil, nil, money.Usage{ServiceTier: money.Flex}},
		{"nothing", openAI{}, []Value{value("service_tier", "auto")}, []Value{{Path: []byte("service_tier"), Kind: Null}}, nil, money.Usage{}},
		{"DeepSeek has a name of its own for what its cache served", openAI{}, nil, []Value{
			count("usage.prompt_tokens", "100"), count("usage.prompt_cache_hit_tokens", "90"), count("usage.prompt_cache_miss_tokens", "10"),
		}, nil, money.Usage{Input: 10, CachedInput: 90}},
		{"Anthropic", anthropic{}, nil, []Value{
			count("usage.input_tokens", "5"), count("usage.cache_creation_input_tokens", "100"),
			count("usage.cache_creation.ephemeral_5m_input_tokens", "60"), count("usage.cache_creation.ephemeral_1h_input_tokens", "40"),
			count("usage.output_tokens", "7"), value("usage.service_tier", "standard"),
		}, nil, money.Usage{Input: 5, CacheWrite: 60, CacheWriteHour: 40, Output: 7, ServiceTier: money.Standard}},
		{"its streams", anthropic{}, nil, []Value{
			count("message.usage.cache_creation_input_tokens", "100"), count("message.usage.cache_creation.ephemeral_1h_input_tokens", "100"),
			value("message.usage.service_tier", "batch"), count("usage.output_tokens", "7"),
		}, nil, money.Usage{CacheWriteHour: 100, Output: 7, ServiceTier: money.Batch}},
		{"more for an hour than in all", anthropic{}, nil, []Value{
			count("usage.cache_creation_input_tokens", "10"), count("usage.cache_creation.ephemeral_1h_input_tokens", "100"),
		}, nil, money.Usage{CacheWriteHour: 10}},
		{"Gemini says it in a header", gemini{}, []Value{value("serviceTier", "SERVICE_TIER_PRIORITY")}, nil, header("X-Gemini-Service-Tier", "standard"), money.Usage{ServiceTier: money.Standard}},
		{"Gemini says nothing", gemini{}, []Value{value("service_tier", "priority")}, nil, nil, money.Usage{ServiceTier: money.Priority}},
		{"its Interactions", interactions{}, []Value{value("service_tier", "flex")}, nil, header("X-Gemini-Service-Tier", "flex"), money.Usage{ServiceTier: money.Flex}},
		{"Bedrock", bedrock{}, []Value{value("serviceTier.type", "flex")}, []Value{value("serviceTier.type", "default")}, nil, money.Usage{ServiceTier: money.Standard}},
	} {
		call, usage := &Call{Request: httptest.NewRequest(http.MethodPost, "/", nil), Operation: chatCompletions}, new(Usage)
		for _, v := range tt.request {
			tt.adapter.Request(call, v)
		}
		if a, ok := tt.adapter.(headerReader); ok {
			a.Headers(call, usage, tt.header)
		}
		for _, v := range tt.answer {
			tt.adapter.Response(call, usage, v)
		}
		if got := billOf(tt.adapter, call, usage); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
