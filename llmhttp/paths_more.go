package llmhttp

import "slices"

// otherPaths returns the paths of other providers that no adapter counts.
func otherPaths() []knownPath {
	return slices.Concat(
		pathsOf("Cohere", cohereSource, toldFate, "", "/v1/chat", "/v1/generate", "/v1/summarize"),
		pathsOf("Cohere", cohereSource, toldFate, "", "/v1/embed", "/v1/rerank"),
		pathsOf("Cohere", cohereSource, toldFate, "training", "/v1/finetuning/finetuned-models"),
		pathsOf("Cohere", cohereSource, freeFate, "counts tokens", "/v1/tokenize", "/v1/detokenize"),
		pathsOf("Cohere", cohereSource, freeFate, "batches", "/v1/embed-jobs"),
		pathsOf("Mistral", mistralSource, toldFate, "", "/v1/ocr", "/v1/classifications", "/v1/chat/classifications"),
		pathsOf("Mistral", mistralSource, freeFate, "batches", "/v1/batch/jobs"),
		pathsOf("xAI", xaiSource, toldFate, "", "/v1/videos/generations", "/v1/tts", "/v1/stt"),
		pathsOf("xAI", xaiSource, freeFate, "counts tokens", "/v1/tokenize-text"),
		pathsOf("Perplexity", unread, toldFate, "", "/v1/sonar", "/v1/async/sonar"),
		pathsOf("Replicate", replicateSource, toldFate, "", "/v1/predictions", "/v1/models/{owner}/{model}/predictions",
			"/v1/deployments/{owner}/{model}/predictions"),
		pathsOf("Replicate", replicateSource, toldFate, "training", "/v1/trainings", "/v1/models/{owner}/{model}/versions/{id}/trainings"),
		pathsOf("Replicate", replicateSource, freeFate, "ends something", "/v1/predictions/{id}/cancel", "/v1/trainings/{id}/cancel"),
		pathsOf("Hugging Face", unread, toldFate, "", "huggingface.co/models/{model...}"),
		pathsOf("Hugging Face", unread, freeFate, "files", "huggingface.co/api/models/{model...}"),
		pathsOf("SageMaker", sageMakerSource, toldFate, "",
			"/endpoints/{model}/invocations", "/endpoints/{model}/invocations-response-stream", "/endpoints/{model}/async-invocations"),
		pathsOf("Databricks", unread, toldFate, "", "/serving-endpoints/{model}/invocations"),
		pathsOf("Snowflake", snowflakeSource, toldFate, "", "/cortex/inference/complete", "/cortex/inference:complete"),
		pathsOf("watsonx", watsonxSource, toldFate, "", "/ml/v1/text/generation", "/ml/v1/text/generation_stream",
			"/ml/v1/text/chat", "/ml/v1/text/chat_stream", "/ml/v1/deployments/{model}/text/generation"),
		pathsOf("watsonx", watsonxSource, freeFate, "counts tokens", "/ml/v1/text/tokenization"),
		pathsOf("DashScope", unread, toldFate, "", "/services/aigc/text-generation/generation",
			"/services/aigc/multimodal-generation/generation", "/services/embeddings/text-embedding/text-embedding"),
		pathsOf("MiniMax", unread, toldFate, "", "/v1/text/chatcompletion_v2"),
		pathsOf("OCI", unread, toldFate, "", "/actions/chat", "/actions/generateText",
			"/actions/embedText"),
	)
}

// localPaths returns the paths of servers that run models themselves that no adapter counts.
func localPaths() []knownPath {
	return slices.Concat(
		pathsOf("Ollama", ollamaSource, freeFate, "models", "/api/show", "/api/pull", "/api/push", "/api/create", "/api/copy"),
		pathsOf("llama.cpp", llamaSource, toldFate, "", "/completion", "/infill", "/embedding", "/rerank", "/reranking", "/v1/reranking",
			"/v1/systemone"),
		pathsOf("llama.cpp", llamaSource, freeFate, "counts tokens", "/tokenize", "/detokenize", "/apply-template", "/chat/completions/input_tokens"),
		pathsOf("llama.cpp", llamaSource, freeFate, "ends something", "/chat/completions/control"),
		pathsOf("llama.cpp", llamaSource, freeFate, "models", "/models/load", "/models/unload", "/lora-adapters", "/slots/{id}"),
		pathsOf("vLLM", vllmSource, toldFate, "", "/chat/completions/batch", "/pooling", "/classify", "/score", "/v1/score", "/inference/v1/generate", "/invocations"),
		pathsOf("vLLM", vllmSource, freeFate, "models", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
		pathsOf("TGI", tgiSource, toldFate, "", "/generate", "/generate_stream"),
		pathsOf("TGI", tgiSource, freeFate, "counts tokens", "/chat_tokenize"),
		pathsOf("Embeddings Inference", unread, toldFate, "", "/embed", "/embed_all", "/embed_sparse",
			"/similarity"),
		pathsOf("SGLang", sglangSource, toldFate, "", "/encode", "/v1/classify"),
		pathsOf("KoboldCpp", unread, toldFate, "", "/api/extra/generate/stream"),
		pathsOf("Triton", tritonSource, toldFate, "",
			"/v2/models/{model}/generate", "/v2/models/{model}/generate_stream", "/v2/models/{model}/infer"),
		pathsOf("LM Studio", lmStudioSource, toldFate, "", "/api/v1/chat"),
		pathsOf("LM Studio", lmStudioSource, freeFate, "models", "/api/v1/models/load", "/api/v1/models/unload", "/api/v1/models/download"),
	)
}
