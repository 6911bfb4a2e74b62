package llmhttp

import (
	"net/http"
	"slices"
	"strings"
)

// readOn is the day on which the stored copies of the sources below were read.
const readOn = "2026-11-25"

// The sources of the paths that no adapter counts. An SDK for Go lists every path of its API.
const (
	openAISource    = "https://pkg.go.dev/github.com/openai/openai-go/v3@v3.96.0"
	anthropicSource = "https://pkg.go.dev/github.com/anthropics/anthropic-sdk-go@v1.84.0"
	geminiSource    = "https://ai.google.dev/api/all-methods"
	genaiSource     = "https://pkg.go.dev/google.golang.org/genai@v1.77.0"
	bedrockSource   = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_Operations_Amazon_Bedrock_Runtime.html"
	cohereSource    = "https://pkg.go.dev/github.com/cohere-ai/cohere-go/v2"
	mistralSource   = "https://docs.rs/crate/mistral-openapi-client/latest/source/docs/ApiEndpoint.md"
	xaiSource       = "https://docs.x.ai/api-reference"
	replicateSource = "https://replicate.com/docs/reference/http.md"
	cloudSource     = "https://developers.cloudflare.com/workers-ai/get-started/rest-api/"
	gatewaySource   = "https://developers.cloudflare.com/ai-gateway/llms-full.txt"
	vllmSource      = "https://docs.vllm.ai/en/stable/serving/online_serving.html"
	llamaSource     = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"
	tgiSource       = "https://huggingface.co/docs/text-generation-inference/en/reference/api_reference.md"
	ollamaSource    = "https://mintlify.com/ollama/ollama/api/introduction"
	sageMakerSource = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Operations_Amazon_SageMaker_Runtime.md"
	snowflakeSource = "https://docs.snowflake.com/developer-guide/snowflake-rest-api/cortex-inference/cortex-inference-introduction"
	watsonxSource   = "https://ibm.com/watsonx/developer/get-started/quick-start"
	sglangSource    = "https://docs.sglang.io/docs/basic_usage/native_api.md"
	tritonSource    = "https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/protocol/extension_generate.html"
	lmStudioSource  = "https://lmstudio.ai/docs/api/rest-api"

	// unread stands for a page of which there was no copy: the paths are those that clients use.
	unread = ""
)

// pathsOf returns the known paths of an API with the same fate. A path is one of POST, unless a
// method stands before it.
func pathsOf(api, source string, f fate, note string, paths ...string) []knownPath {
	all := make([]knownPath, 0, len(paths))
	for _, path := range paths {
		method, rest, ok := strings.Cut(path, " ")
		if !ok {
			method, rest = http.MethodPost, path
		}
		known := knownPath{api: api, method: method, path: rest, fate: f, note: note, source: source}
		if source != unread {
			known.readOn = readOn
		}
		all = append(all, known)
	}
	return all
}

// openAIPaths returns the paths of OpenAI's API that no adapter counts.
func openAIPaths() []knownPath {
	const api = "OpenAI"
	told := func(note string, paths ...string) []knownPath {
		return pathsOf(api, openAISource, toldFate, note, paths...)
	}
	free := func(note string, paths ...string) []knownPath {
		return pathsOf(api, openAISource, freeFate, note, paths...)
	}
	return slices.Concat(
		told("audio in both directions", "GET /realtime", "GET /realtime/translations", "/realtime/calls",
			"/realtime/calls/{id}/accept", "GET /live/sessions", "GET /live/sessions/{id}/attach", "GET /live/sessions/{id}/fork", "/live/sessions", "/live/sessions/{id}/accept", "/live/sessions/{id}/fork"),
		told("a key for sessions that do not pass here", "/realtime/client_secrets", "/realtime/translations/client_secrets",
			"/chatkit/sessions"),
		pathsOf(api, unread, toldFate, "a key for sessions that do not pass here", "/realtime/sessions", "/realtime/transcription_sessions"),
		told("", "/videos/characters", "/videos/{id}/remix", "/decisions"),
		told("the provider calls models as often as it sees fit", "/threads/runs", "/threads/{id}/runs",
			"/threads/{id}/runs/{id}/submit_tool_outputs", "/agents/sessions", "/agents/sessions/{id}/events"),
		pathsOf(api, unread, toldFate, "the provider calls models as often as it sees fit", "/evals/{id}/runs"),
		told("training", "/fine_tuning/jobs", "/fine_tuning/alpha/graders/run"),
		pathsOf(api, unread, toldFate, "training", "/fine-tunes"),
		free("counts tokens", "/responses/input_tokens"),
		free("batches", "/batches", "/batches/{id}/cancel"),
		free("files", "/files", "/uploads", "/uploads/{id}/parts", "/uploads/{id}/complete", "/uploads/{id}/cancel",
			"/containers", "/containers/{id}/files", "/vector_stores", "/vector_stores/{id}/search"),
		free("settings; nothing is generated", "/assistants", "openai.com/v1/assistants/{id}", "azure.com/assistants/{id}", "/threads", "openai.com/v1/threads/{id}",
			"/threads/{id}/messages", "/agents", "openai.com/v1/agents/{id}", "/skills", "openai.com/v1/conversations",
			"openai.com/v1/conversations/{id}", "openai.com/v1/conversations/{id}/items", "openai.com/v1/chat/completions/{id}",
			"/fine_tuning/alpha/graders/validate"),
		pathsOf(api, unread, freeFate, "settings; nothing is generated", "/evals"),
		free("ends something", "/responses/{id}/cancel", "/threads/{id}/runs/{id}/cancel", "/realtime/calls/{id}/hangup",
			"/realtime/calls/{id}/reject", "/realtime/calls/{id}/refer", "/live/sessions/{id}/hangup",
			"/fine_tuning/jobs/{id}/cancel", "/fine_tuning/jobs/{id}/pause", "/fine_tuning/jobs/{id}/resume"),
	)
}

// anthropicPaths returns the paths of Anthropic's API that no adapter counts.
func anthropicPaths() []knownPath {
	const api = "Anthropic"
	told := func(note string, paths ...string) []knownPath {
		return pathsOf(api, anthropicSource, toldFate, note, paths...)
	}
	free := func(note string, paths ...string) []knownPath {
		return pathsOf(api, anthropicSource, freeFate, note, paths...)
	}
	return slices.Concat(
		told("the API before Messages", "/v1/complete"),
		told("the provider calls models as often as it sees fit", "/v1/sessions", "/v1/sessions/{id}/events",
			"/v1/deployments/{id}/run", "/v1/dreams"),
		free("batches", "/v1/messages/batches", "/v1/messages/batches/{id}/cancel"),
		free("settings; nothing is generated", "anthropic.com/v1/agents/{id}", "/v1/deployments", "anthropic.com/v1/deployments/{id}",
			"/v1/deployments/{id}/archive",
			"/v1/deployments/{id}/pause", "/v1/deployments/{id}/unpause", "anthropic.com/v1/sessions/{id}", "/v1/sessions/{id}/archive",
			"/v1/dreams/{id}/cancel", "/v1/dreams/{id}/archive", "/v1/environments"),
	)
}

// cloudPaths returns the paths of Google, AWS and Cloudflare that no adapter counts.
func cloudPaths() []knownPath {
	return slices.Concat(
		pathsOf("Gemini", geminiSource, toldFate, "audio in both directions",
			"GET /ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent",
			"GET /ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContentConstrained",
			"GET /ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateMusic"),
		pathsOf("Vertex", genaiSource, toldFate, "audio in both directions",
			"GET /ws/google.cloud.aiplatform.{version}.LlmBidiService/BidiGenerateContent"),
		pathsOf("Gemini", genaiSource, toldFate, "video", "/models/{model}:predictLongRunning"),
		pathsOf("Gemini", genaiSource, toldFate, "images and other models", "/models/{model}:predict", "/endpoints/{model}:predict"),
		pathsOf("Gemini", unread, toldFate, "images and other models", "/models/{model}:streamRawPredict", "/models/{model}:rawPredict"),
		pathsOf("Gemini", geminiSource, toldFate, "the provider calls models as often as it sees fit", "/models/{model}:generateAnswer",
			"/reasoningEngines/{model}:query", "/reasoningEngines/{model}:streamQuery"),
		pathsOf("Gemini", geminiSource, toldFate, "training", "/tunedModels", "/tuningJobs"),
		pathsOf("Gemini", genaiSource, freeFate, "counts tokens", "/models/{model}:computeTokens", "/endpoints/{model}:computeTokens"),
		pathsOf("Gemini", genaiSource, freeFate, "batches",
			"/models/{model}:batchGenerateContent", "/models/{model}:asyncBatchEmbedContent",
			"/tunedModels/{model}:batchGenerateContent", "/tunedModels/{model}:asyncBatchEmbedContent", "/batchPredictionJobs", "/batches/{id}:cancel"),
		pathsOf("Gemini", geminiSource, freeFate, "files", "/files:register", "/fileSearchStores", "/corpora", "/fileSearchStores/{id}:importFile",
			"/fileSearchStores/{id}:uploadToFileSearchStore"),
		pathsOf("Gemini", geminiSource, freeFate, "storage", "/cachedContents"),
		pathsOf("Gemini", geminiSource, freeFate, "settings; nothing is generated", "/tunedModels/{model}:transferOwnership",
			"/tunedModels/{model}/permissions", "/models/{model}:fetchPredictOperation", "/endpoints/{model}:fetchPredictOperation"),
		pathsOf("Bedrock", unread,
			toldFate, "the provider calls models as often as it sees fit", "/agents/{id}/agentAliases/{id}/sessions/{id}/text", "/retrieveAndGenerate",
			"/retrieveAndGenerateStream", "/optimize-prompt", "/flows/{id}/aliases/{id}", "amazonaws.com/rerank"),
		pathsOf("Cloudflare", cloudSource, toldFate, "", "/ai/run/{model...}"),
		pathsOf("Cloudflare", gatewaySource, toldFate, "a gateway", "gateway.ai.cloudflare.com/v1/{account}/{gateway}",
			"gateway.ai.cloudflare.com/v1/{account}/{gateway}/workers-ai/{model...}",
			"gateway.ai.cloudflare.com/v1/{account}/{gateway}/huggingface/{model...}",
			"gateway.ai.cloudflare.com/v1/{account}/{gateway}/replicate/predictions"),
	)
}
