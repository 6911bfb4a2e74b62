package otelratelimit_test

import (
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"dappco.re/go/core/go-ratelimit/otelratelimit"
)

// The names of attributes and their values are those of the conventions.
func TestConventions(t *testing.T) {
	for key, got := range map[attribute.Key]instruments.Attribute{
		semconv.GenAIRequestModelKey: instruments.Model, semconv.GenAIProviderNameKey: instruments.Provider,
		semconv.GenAITokenTypeKey: instruments.TokenType, semconv.ErrorTypeKey: instruments.ErrorType,
		semconv.HTTPResponseStatusCodeKey: instruments.Status, semconv.DBSystemNameKey: instruments.System,
	} {
		if got.Name != string(key) {
			t.Errorf("%s, want %s", got.Name, key)
		}
	}
	if semconv.GenAITokenTypeInput.Value.AsString() != instruments.Input || semconv.GenAITokenTypeOutput.Value.AsString() != instruments.Output {
		t.Error("the types of tokens differ from the conventions'")
	}
	if semconv.ErrorTypeOther.Value.AsString() != instruments.OtherError {
		t.Error("the other error differs from the conventions'")
	}
	for provider, want := range map[ratelimit.Provider]attribute.KeyValue{
		ratelimit.ProviderGemini: semconv.GenAIProviderNameGCPGemini, ratelimit.ProviderVertex: semconv.GenAIProviderNameGCPVertexAI,
		ratelimit.ProviderOpenAI: semconv.GenAIProviderNameOpenAI, ratelimit.ProviderAzure: semconv.GenAIProviderNameAzureAIOpenAI,
		ratelimit.ProviderAnthropic: semconv.GenAIProviderNameAnthropic, ratelimit.ProviderBedrock: semconv.GenAIProviderNameAWSBedrock,
		ratelimit.ProviderGroq: semconv.GenAIProviderNameGroq, ratelimit.ProviderMistral: semconv.GenAIProviderNameMistralAI,
		ratelimit.ProviderXAI: semconv.GenAIProviderNameXAI, ratelimit.ProviderDeepSeek: semconv.GenAIProviderNameDeepseek,
		"cerebras": semconv.GenAIProviderNameKey.String("cerebras"), // which the conventions do not list
	} {
		h, reader := newHandler(t)
		tell(h, ratelimit.Event{Kind: ratelimit.EventAdmitted, Model: "m", Provider: provider})
		got := collect(t, reader)["ratelimit.requests"].Data.(metricdata.Sum[int64]).DataPoints[0].Attributes
		if value, _ := got.Value(want.Key); value != want.Value {
			t.Errorf("%s is %s, want %s", provider, value.String(), want.Value.String())
		}
	}
}

// The metrics of the conventions tell of calls whose use is known, and come only if they are asked
// for.
func TestGenAIMetrics(t *testing.T) {
	events := []ratelimit.Event{
		{Kind: ratelimit.EventAdmitted, Estimated: usage(100, 100)},
		{Kind: ratelimit.EventSettled, Estimated: usage(100, 100), Settled: usage(90, 30), Held: 2 * time.Second},
		{Kind: ratelimit.EventRecorded, Model: "other", Settled: usage(5, 0)},
		{Kind: ratelimit.EventReleased, Estimated: usage(1, 1), Held: time.Second},
		{Kind: ratelimit.EventExpired, Estimated: usage(1, 1), Settled: usage(1, 1), Held: time.Hour},
	}
	h, reader := newHandler(t)
	tell(h, events...)
	equalLines(t, lines(collect(t, reader), "gen_ai."))

	for operation, name := range map[string]string{"": "chat", "generate_content": "generate_content"} {
		h, reader = newHandler(t, otelratelimit.WithGenAIMetrics(operation))
		tell(h, events...)
		all := collect(t, reader)
		const client = "gen_ai.client.inference."
		m := "gen_ai.operation.name=" + name + ",gen_ai.provider.name=gcp.gemini,gen_ai.request.model=m"
		other := "gen_ai.operation.name=" + name + ",gen_ai.provider.name=unknown,gen_ai.request.model=other"
		equalLines(t, lines(all, "gen_ai."),
			client+"duration{"+m+"} 1: 2",
			client+"usage.input_tokens{"+m+",gen_ai.token.modality=unknown} 90",
			client+"usage.output_tokens{"+m+",gen_ai.token.modality=unknown} 30",
			client+"usage.input_tokens{"+other+",gen_ai.token.modality=unknown} 5",
			client+"usage.output_tokens{"+other+",gen_ai.token.modality=unknown} 0",
			client+"operation.input_tokens{"+m+"} 1: 90", client+"operation.output_tokens{"+m+"} 1: 30",
			client+"operation.input_tokens{"+other+"} 1: 5", client+"operation.output_tokens{"+other+"} 1: 0",
		)
		seconds := all[client+"duration"].Data.(metricdata.Histogram[float64]).DataPoints[0].Bounds
		tokens := all[client+"operation.input_tokens"].Data.(metricdata.Histogram[int64]).DataPoints[0].Bounds
		for i, b := range seconds {
			if want := 0.01 * float64(int(1)<<i); b-want > 1e-9 || want-b > 1e-9 || len(seconds) != 14 {
				t.Errorf("the boundaries of the duration are %v", seconds)
			}
		}
		if want := []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}; !slices.Equal(tokens, want) {
			t.Errorf("the boundaries of the tokens are %v", tokens)
		}
	}
}
