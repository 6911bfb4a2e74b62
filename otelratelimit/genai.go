package otelratelimit

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

// The names and boundaries of the client metrics of the GenAI semantic conventions: those of commit
// 4f85037ef86e of open-telemetry/semantic-conventions-genai, of 2026-10-06, whose schema is
// gen-ai-dev/1.42.0-dev. That repository has no releases yet.
const (
	genAIDuration     = "gen_ai.client.inference.duration"
	genAIInputUsage   = "gen_ai.client.inference.usage.input_tokens"
	genAIOutputUsage  = "gen_ai.client.inference.usage.output_tokens"
	genAIInputTokens  = "gen_ai.client.inference.operation.input_tokens"
	genAIOutputTokens = "gen_ai.client.inference.operation.output_tokens"

	genAIOperation = "gen_ai.operation.name"
	genAIModality  = "gen_ai.token.modality"
)

var (
	genAISeconds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	genAITokens  = []float64{
		1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
	}
)

// genAI are the instruments of WithGenAIMetrics.
type genAI struct {
	duration            metric.Float64Histogram
	usedIn, usedOut     metric.Int64Counter
	tokensIn, tokensOut metric.Int64Histogram
}

// genAISeries are the attributes of a model.
type genAISeries struct {
	operation *options
	usage     *options // with the modality, which the limiter does not know
}

func newGenAI(m *maker) *genAI {
	return &genAI{
		duration: m.histogram(instruments.Instrument{
			Name: genAIDuration, Unit: "s", Boundaries: genAISeconds, Description: "GenAI client inference operation duration.",
		}),
		usedIn: m.counter(instruments.Instrument{
			Name: genAIInputUsage, Unit: "{token}", Description: "The number of input (prompt) tokens used, including cached tokens.",
		}),
		usedOut: m.counter(instruments.Instrument{
			Name: genAIOutputUsage, Unit: "{token}", Description: "The number of output (completion) tokens used, including reasoning tokens.",
		}),
		tokensIn: m.integers(instruments.Instrument{
			Name: genAIInputTokens, Unit: "{token}", Boundaries: genAITokens,
			Description: "The number of input (prompt) tokens used per inference operation.",
		}),
		tokensOut: m.integers(instruments.Instrument{
			Name: genAIOutputTokens, Unit: "{token}", Boundaries: genAITokens,
			Description: "The number of output (completion) tokens used per inference operation.",
		}),
	}
}

// newGenAISeries returns the attributes of a model. The conventions require a provider, so an
// unknown one has a name.
func (c *config) newGenAISeries(base []attribute.KeyValue, known bool) *genAISeries {
	base = append(base, attribute.String(genAIOperation, c.operation))
	if !known {
		base = append(base, attribute.String(instruments.Provider.Name, "unknown"))
	}
	return &genAISeries{
		operation: newOptions(base...),
		usage:     newOptions(append(base, attribute.String(genAIModality, "unknown"))...),
	}
}

// tell counts a call that was settled or recorded. Of the latter nobody knows how long it took.
func (g *genAI) tell(ctx context.Context, s *genAISeries, e *ratelimit.Event, m *instruments.Measurements) {
	switch e.Kind {
	case ratelimit.EventSettled:
		g.duration.Record(ctx, m.Lease, s.operation.record...)
	case ratelimit.EventRecorded:
	default:
		return
	}
	in, out := int64(m.Settled.PromptTokens), int64(m.Settled.OutputTokens)
	g.usedIn.Add(ctx, in, s.usage.add...)
	g.usedOut.Add(ctx, out, s.usage.add...)
	g.tokensIn.Record(ctx, in, s.operation.record...)
	g.tokensOut.Record(ctx, out, s.operation.record...)
}
