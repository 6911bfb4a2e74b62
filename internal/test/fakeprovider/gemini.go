package fakeprovider

import "encoding/json"

// metadata returns the usage when there were so many tokens of output.
func (x *exchange) metadata(output int) json.RawMessage {
	u := x.answer.Usage
	pairs := []any{"promptTokenCount", x.count(u.Prompt)}
	if n := output - u.Thoughts; n > 0 {
		pairs = append(pairs, "candidatesTokenCount", x.count(n))
	}
	pairs = append(pairs, "totalTokenCount", x.count(u.Prompt+output))
	if u.CacheRead > 0 {
		pairs = append(pairs, "cachedContentTokenCount", x.count(u.CacheRead))
	}
	pairs = append(pairs, "promptTokensDetails", list(object("modality", "TEXT", "tokenCount", x.count(u.Prompt))))
	if u.Thoughts > 0 {
		pairs = append(pairs, "thoughtsTokenCount", x.count(u.Thoughts))
	}
	return object(pairs...)
}

// candidate returns an answer, or a part of one, with a text.
func (x *exchange) candidate(id, text string, last bool, output int) json.RawMessage {
	pairs := []any{"content", object("parts", list(object("text", text)), "role", "model")}
	if last {
		reason := "STOP"
		if x.full() {
			reason = "MAX_TOKENS"
		}
		pairs = append(pairs, "finishReason", reason)
	}
	return object("candidates", list(object(append(pairs, "index", 0)...)), "usageMetadata", x.metadata(output),
		"modelVersion", x.call.Model, "responseId", id)
}

// generated returns the answer that is no stream.
func (x *exchange) generated() json.RawMessage {
	if x.call.Operation != "embedContent" {
		return x.candidate(x.id(), x.text(), true, x.answer.Output)
	}
	values := []float64{x.call.Rand.Float64(), -x.call.Rand.Float64(), 0.5}
	if x.call.vertex {
		statistics := object("token_count", x.count(x.answer.Prompt), "truncated", false)
		return object("predictions", list(object("embeddings", object("statistics", statistics, "values", values))))
	}
	return object("embedding", object("values", values), "embeddings", list(object("values", values)),
		"usageMetadata", object("promptTokenCount", x.count(x.answer.Prompt)))
}

func (x *exchange) streamGenerated() {
	id := x.id()
	for i := range x.answer.Chunks {
		last := i == x.answer.Chunks-1
		data := x.candidate(id, x.part(i), last, x.partial(i+1))
		x.tells, x.last = last, last
		var ok bool
		switch {
		case x.call.sse:
			ok = x.event("", data)
		case i == 0:
			ok = x.write(append([]byte("["), data...))
		default:
			ok = x.write(append([]byte(",\r\n"), data...))
		}
		if !ok {
			return
		}
	}
	if !x.call.sse {
		x.raw([]byte("]"))
	}
}
