package sdktest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

const (
	model = "test-model"
	key   = "canary-key"
)

// An api is an operation of an SDK, as JSON or as a stream.
type api struct {
	name     string
	provider string // whose SDK it is
	embeds   bool   // makes no output
	// client returns what makes a call, through an SDK's client that uses hc, with the
	// SDK's retries on or off, at the provider with an address.
	client func(hc *http.Client, address string, retries bool) (call, error)
}

// call makes a call, and reads its answer to the end.
type call func(ctx context.Context, prompt string, maxTokens int64) error

var apis = []api{
	{"OpenAI chat", "openai", false, openAI(func(ctx context.Context, c *openai.Client, prompt string, most int64) error {
		_, err := c.Chat.Completions.New(ctx, chatParams(prompt, most))
		return err
	})},
	{"OpenAI chat, streamed", "openai", false, openAI(func(ctx context.Context, c *openai.Client, prompt string, most int64) error {
		params := chatParams(prompt, most)
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		stream := c.Chat.Completions.NewStreaming(ctx, params)
		told := false
		for stream.Next() {
			told = told || stream.Current().Usage.TotalTokens != 0
		}
		return ended(stream, told)
	})},
	{"OpenAI responses", "openai", false, openAI(func(ctx context.Context, c *openai.Client, prompt string, most int64) error {
		_, err := c.Responses.New(ctx, responseParams(prompt, most))
		return err
	})},
	{"OpenAI responses, streamed", "openai", false, openAI(func(ctx context.Context, c *openai.Client, prompt string, most int64) error {
		stream := c.Responses.NewStreaming(ctx, responseParams(prompt, most))
		told := false
		for stream.Next() {
			told = told || stream.Current().Response.Usage.TotalTokens != 0
		}
		return ended(stream, told)
	})},
	{"OpenAI embeddings", "openai", true, openAI(func(ctx context.Context, c *openai.Client, prompt string, _ int64) error {
		_, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String(prompt)}})
		return err
	})},
	{"Anthropic messages", "anthropic", false, anthropicSDK(func(ctx context.Context, c *anthropic.Client, prompt string, most int64) error {
		_, err := c.Messages.New(ctx, messageParams(prompt, most))
		return err
	})},
	{"Anthropic messages, streamed", "anthropic", false, anthropicSDK(func(ctx context.Context, c *anthropic.Client, prompt string, most int64) error {
		stream := c.Messages.NewStreaming(ctx, messageParams(prompt, most))
		told := false
		for stream.Next() {
			told = told || stream.Current().Usage.OutputTokens != 0
		}
		return ended(stream, told)
	})},
	{"Gemini", "gemini", false, gemini(func(ctx context.Context, c *genai.Client, prompt string, most int64) error {
		_, err := c.Models.GenerateContent(ctx, model, genai.Text(prompt), &genai.GenerateContentConfig{MaxOutputTokens: int32(most)})
		return err
	})},
	{"Gemini, streamed", "gemini", false, gemini(func(ctx context.Context, c *genai.Client, prompt string, most int64) error {
		told := false
		for answer, err := range c.Models.GenerateContentStream(ctx, model, genai.Text(prompt), &genai.GenerateContentConfig{MaxOutputTokens: int32(most)}) {
			if err != nil {
				return err
			}
			told = told || answer.UsageMetadata != nil
		}
		if !told {
			return errNoUsage
		}
		return nil
	})},
}

var errNoUsage = fmt.Errorf("read a stream: no usage in it")

// ended returns what went wrong with a stream that was read to its end.
func ended(stream interface {
	Err() error
	Close() error
}, told bool) error {
	stream.Close()
	if err := stream.Err(); err != nil {
		return err
	}
	if !told {
		return errNoUsage
	}
	return nil
}

func openAI(do func(context.Context, *openai.Client, string, int64) error) func(*http.Client, string, bool) (call, error) {
	return func(hc *http.Client, address string, retries bool) (call, error) {
		options := []openaioption.RequestOption{openaioption.WithHTTPClient(hc), openaioption.WithBaseURL(address + "/v1/"), openaioption.WithAPIKey(key)}
		if !retries {
			options = append(options, openaioption.WithMaxRetries(0))
		}
		client := openai.NewClient(options...)
		return func(ctx context.Context, prompt string, most int64) error { return do(ctx, &client, prompt, most) }, nil
	}
}

func anthropicSDK(do func(context.Context, *anthropic.Client, string, int64) error) func(*http.Client, string, bool) (call, error) {
	return func(hc *http.Client, address string, retries bool) (call, error) {
		options := []anthropicoption.RequestOption{anthropicoption.WithHTTPClient(hc), anthropicoption.WithBaseURL(address), anthropicoption.WithAPIKey(key)}
		if !retries {
			options = append(options, anthropicoption.WithMaxRetries(0))
		}
		client := anthropic.NewClient(options...)
		return func(ctx context.Context, prompt string, most int64) error { return do(ctx, &client, prompt, most) }, nil
	}
}

func gemini(do func(context.Context, *genai.Client, string, int64) error) func(*http.Client, string, bool) (call, error) {
	return func(hc *http.Client, address string, retries bool) (call, error) {
		config := &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI, HTTPClient: hc, HTTPOptions: genai.HTTPOptions{BaseURL: address}}
		if retries {
			config.HTTPOptions.RetryOptions = &genai.HTTPRetryOptions{}
		}
		client, err := genai.NewClient(context.Background(), config)
		return func(ctx context.Context, prompt string, most int64) error { return do(ctx, client, prompt, most) }, err
	}
}

func chatParams(prompt string, most int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, MaxCompletionTokens: openai.Int(most),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	}
}

func responseParams(prompt string, most int64) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: model, MaxOutputTokens: openai.Int(most),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)},
	}
}

func messageParams(prompt string, most int64) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: model, MaxTokens: most,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
	}
}
