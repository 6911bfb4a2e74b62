package llmhttp

import (
	"net/http"
	"strings"
)

// openAIMore is the adapter for the calls of OpenAI's API that are no completions: the compaction
// of a conversation, and images, sounds, videos and moderations, of which the requests count. Where
// their answers report tokens, these count, too.
//
// See https://developers.openai.com/api/reference.
type openAIMore struct{ openAI }

// openAIRequests are the ends of paths that count by requests, their operations, and the models
// that are meant where a request names none.
var openAIRequests = []struct{ suffix, operation, model string }{
	{"/images/generations", "images.generations", "dall-e-2"},
	{"/images/edits", "images.edits", "dall-e-2"},
	{"/images/variations", "images.variations", "dall-e-2"},
	{"/audio/speech", "audio.speech", "tts-1"},
	{"/audio/transcriptions", "audio.transcriptions", "whisper-1"},
	{"/audio/translations", "audio.translations", "whisper-1"},
	{"/moderations", "moderations", "omni-moderation-latest"},
	{"/v1/videos", "videos", "sora-2"},
	{"/videos/edits", "videos.edits", "sora-2"},
	{"/videos/extensions", "videos.extensions", "sora-2"},
}

const responsesCompact = "responses.compact"

func (openAIMore) Match(req *http.Request, call *Call) bool {
	if req.Method != http.MethodPost {
		return false
	}
	path := req.URL.Path
	if strings.HasSuffix(path, "/responses/compact") {
		call.Operation = responsesCompact
		return true
	}
	for _, o := range openAIRequests {
		rest, ok := strings.CutSuffix(path, o.suffix)
		if !ok {
			continue
		}
		call.Operation, call.Model, call.byRequest = o.operation, deployment(rest), true
		call.inPath, call.meant = call.Model != "", o.model
		return true
	}
	return false
}

func (a openAIMore) Request(call *Call, v Value) {
	if call.byRequest {
		switch string(v.Path) {
		case "model":
			call.setModel(v)
		case "stream":
			call.Stream = v.isTrue()
		}
		return
	}
	a.openAI.Request(call, v)
}

func (a openAIMore) Estimate(call *Call, promptTokens, outputTokens int) (prompt, output int) {
	if call.byRequest {
		return 0, 0
	}
	return a.openAI.Estimate(call, promptTokens, outputTokens)
}

func (openAIMore) readsForms() {}

func (openAIMore) paths() []knownPath {
	const (
		reference = "https://developers.openai.com/api/reference/resources/"
		tokens    = "with the tokens that the answer reports"
	)
	all := pathsOf("OpenAI", reference+"responses/methods/compact", countedFate, "", "/v1/responses/compact")
	for _, one := range [...]struct{ path, note, page string }{
		{"/v1/images/generations", tokens, "images/methods/generate"},
		{"/v1/images/edits", tokens, "images/methods/edit"},
		{"/v1/images/variations", "", "images/methods/create_variation"},
		{"/v1/audio/speech", "", "audio/subresources/speech/methods/create"},
		{"/v1/audio/transcriptions", tokens, "audio/subresources/transcriptions/methods/create"},
		{"/v1/audio/translations", "", "audio/subresources/translations/methods/create"},
		{"/v1/moderations", "", "moderations/methods/create"},
		{"/v1/videos", "", "videos/methods/create"},
		{"/v1/videos/edits", "", "videos/methods/edit"},
		{"/v1/videos/extensions", "", "videos/methods/extend"},
	} {
		all = append(all, pathsOf("OpenAI", reference+one.page, requestsFate, one.note, one.path)...)
	}
	return all
}
