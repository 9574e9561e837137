import integrahub.ApiClient;
import integrahub.ApiException;
import integrahub.ApiResponse;
import integrahub.api.MessagesApi;
import integrahub.api.OperationsApi;
import integrahub.api.ProductsApi;
import integrahub.api.QueuesAndConnectionsApi;
import integrahub.model.*;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Calls with a client of openapi-generator, as its user would write them. */
public class Calls {
    private static final ApiClient CLIENT = new ApiClient();
    private static final MessagesApi MESSAGES;
    private static final QueuesAndConnectionsApi QUEUES;
    private static final ProductsApi PRODUCTS;

    static {
        CLIENT.updateBaseUri(System.getenv("API"));
        CLIENT.setRequestInterceptor(request -> request.header("X-Api-Key", "local-dev-key-a"));
        MESSAGES = new MessagesApi(CLIENT);
        QUEUES = new QueuesAndConnectionsApi(CLIENT);
        PRODUCTS = new ProductsApi(CLIENT);
    }

    private static void check(boolean holds, Object shown) {
        if (!holds) {
            throw new AssertionError(shown);
        }
    }

    private static TargetFull target() {
        return new TargetFull().queue("DEV.QUEUE.3");
    }

    private static String key() {
        return UUID.randomUUID().toString();
    }

    private static long depth() throws ApiException {
        return QUEUES.depth(new DepthReq().targetRef("local-rabbit").target(target()), null, null).getCurrentDepth();
    }

    private static ConsumeResult take(int most, boolean browse) throws ApiException {
        ConsumeReq request = new ConsumeReq().targetRef("local-rabbit").target(target());
        request.maxMessages(most).waitSeconds(0).browseOnly(browse);
        return MESSAGES.consume(request, key(), null, null, null);
    }

    private static void messages() throws ApiException {
        while (take(10_000, false).getCount() > 0) {}
        ProduceReq request = new ProduceReq().targetRef("local-rabbit").target(target());
        request.batch(new MessageBatch().count(14)).mqProps(new MessageProperties().expiryMs(3_000_000_000L));
        String key = key();
        ApiResponse<ProduceResult> first = MESSAGES.produceWithHttpInfo(key, request, null, null, null);
        ApiResponse<ProduceResult> again = MESSAGES.produceWithHttpInfo(key, request, null, null, null);
        check(first.getData().getEnqueued() == 14, first.getData());
        check(again.getData().equals(first.getData()), again.getData());
        check(again.getHeaders().get("idempotent-replay").equals(List.of("true")), again.getHeaders());
        check(depth() == 14, depth());
        ReceivedMessage last = take(14, true).getMessages().get(13);
        check(last.getHeaders().get("sequence").equals(13), last.getHeaders());
        check(last.getExpiryMs() > Integer.MAX_VALUE, last.getExpiryMs());
        check(take(14, false).getCount() == 14 && depth() == 0, depth());

        Map<String, Object> headers = new HashMap<>();
        headers.put("n", Map.of("int32", "5"));
        headers.put("vip", true);
        headers.put("none", null);
        headers.put("list", List.of(1, "a"));
        ProduceReq tagged = new ProduceReq().targetRef("local-rabbit").target(target());
        tagged.addMessagesItem(new ExplicitMessage().bodyText("{}").headers(headers));
        MESSAGES.produce(key(), tagged, null, null, null);
        Map<String, Object> got = take(1, false).getMessages().get(0).getHeaders();
        check(got.entrySet().containsAll(headers.entrySet()), got);
    }

    private static void refusals() {
        DepthReq missing = new DepthReq().targetRef("local-rabbit").target(new TargetFull().queue("NO.SUCH.QUEUE"));
        try {
            QUEUES.depth(missing, null, null);
            throw new AssertionError("the queue exists");
        } catch (ApiException refused) {
            check(refused.getCode() == 404 && refused.getResponseBody().contains("QUEUE_NOT_FOUND"), refused);
        }
    }

    private static void products() throws Exception {
        String key = "java-" + UUID.randomUUID();
        List<Product> catalogue = new ArrayList<>();
        for (String cnpj : List.of("11444777000161", "05927228000146")) {
            Product product = new Product().CNPJ(new TextOrInteger(cnpj)).SHOPID(new TextOrInteger(1L));
            catalogue.add(product.PRODUCTID(new TextOrInteger(key)).TITLE("SORO").EAN(new TextOrInteger(7891058001155L)));
        }
        Received received = PRODUCTS.loadProducts(key, LoadType.DELTA, catalogue, null, null, null);
        check(PRODUCTS.loadProducts(key, LoadType.DELTA, catalogue, null, null, null).equals(received), received);
        ProductBatch batch = null;
        List<String> open = List.of("RECEIVED", "CHUNKING", "PROCESSING");
        for (int tries = 0; tries < 300; tries++) {
            batch = PRODUCTS.batch(received.getBatchId(), null);
            if (!open.contains(String.valueOf(batch.getStatus().getActualInstance()))) {
                break;
            }
            Thread.sleep(200);
        }
        check(batch.getItemsProcessed() == 1 && batch.getItemsFailed() == 1, batch);
        List<ItemError> errors = PRODUCTS.batchErrors(received.getBatchId(), null, null, null).getErrors();
        check(errors.size() == 1 && errors.get(0).getCode().getString().equals("CNPJ_INVALID"), errors);
        check(PRODUCTS.listBatches(null, null, null, 1, null, null).getBatches().size() == 1, "one batch a page");
    }

    public static void main(String[] arguments) throws Exception {
        messages();
        refusals();
        products();
        check(QUEUES.testConnection(new TargetOnly().targetRef("local-rabbit"), null, null).getOk(), "connected");
        check(new OperationsApi(CLIENT).status(null).getVersion() != null, "a version");
        System.out.println("openapi-generator (Java): every call has the result that its types promise");
    }
}
