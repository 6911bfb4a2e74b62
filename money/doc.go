// Package money says what calls to language models cost: amounts in dollars, prices per million
// tokens, and usage in the kinds of tokens that providers bill apart. Budgets of package ratelimit
// use it. It imports the standard library only.
//
// Amounts are integers, whole micro-dollars ($0.000001), so sums do not depend on their order.
// Sums that are too large stop at Max and do not wrap around. The cost of a call is rounded up
// once, so a budget never counts less than the provider bills. All types are plain values:
// copies may be used concurrently.
//
// # Each token once
//
// The counts of a Usage do not overlap. Providers report them in two ways: as parts of the prompt,
// which must be subtracted from it, or beside it, which must not.
//
//	OpenAI, also on Azure; OpenRouter: the parts of the cache are inside the prompt
//	    Input        prompt_tokens - cached_tokens - cache_write_tokens
//	    CachedInput  prompt_tokens_details.cached_tokens
//	    CacheWrite   prompt_tokens_details.cache_write_tokens (billed since GPT-5.6)
//	    Output       completion_tokens, reasoning inside
//	    The Responses API says input_tokens, input_tokens_details and output_tokens.
//
//	DeepSeek: as OpenAI, also with another name
//	    CachedInput  prompt_cache_hit_tokens
//
//	xAI: as OpenAI, but in chat completions reasoning may be beside the completion
//	    Output       completion_tokens + reasoning_tokens, if total_tokens has room for both
//
//	Anthropic: the parts are beside
//	    Input        input_tokens
//	    CachedInput  cache_read_input_tokens
//	    CacheWrite   cache_creation_input_tokens, less those for an hour
//	    CacheWriteHour  cache_creation.ephemeral_1h_input_tokens
//	    Output       output_tokens, thinking inside
//	    ServiceTier  TierOf(service_tier); OpenAI has it beside the usage
//
//	Gemini: cached content is inside the prompt, tool results and thoughts are beside
//	    Input        promptTokenCount - cachedContentTokenCount + toolUsePromptTokenCount
//	    CachedInput  cachedContentTokenCount
//	    Output       candidatesTokenCount + thoughtsTokenCount
//
//	Bedrock Converse: beside, as at Anthropic (OpenAI's models there: inside)
//	    Input        inputTokens
//	    CachedInput  cacheReadInputTokens
//	    CacheWrite   cacheWriteInputTokens
//	    Output       outputTokens
//
//	Ollama
//	    Input        prompt_eval_count
//	    Output       eval_count
//
// What a provider counts towards a rate limit is another matter: Anthropic bills cached input, and
// leaves it out of the limits of most models.
//
// # What a price leaves out
//
// Sounds, images and videos may cost more than text, and are counted as text here: where a model
// takes them, set the highest price that may apply. Fees that are not for tokens, such as for
// searches or for the storage of a cache, are not in a Price. Nor are surcharges for what is no
// service tier here, such as Anthropic's fast mode: where a program uses it, set its price.
package money
