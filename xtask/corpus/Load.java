import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A load for a virtual machine: objects, strings, sorting, floating point. */
public class Load {
    public static void main(String[] arguments) {
        int rounds = Integer.parseInt(arguments[0]);
        long sum = 0;
        for (int turn = 0; turn < rounds; turn++) {
            sum = (sum * 31 + words() + Math.round(matrix(24) * 1000)) % 1000003;
        }
        System.out.println(sum);
    }

    static long words() {
        Map<String, Integer> counts = new HashMap<>();
        for (int i = 0; i < 5000; i++) {
            counts.merge(Integer.toString((int) ((i * 2654435761L) >>> 12) & 0xfff, 36), i, Integer::sum);
        }
        List<String> ordered = new ArrayList<>(counts.keySet());
        ordered.sort((a, b) -> counts.get(b) != (int) counts.get(a) ? counts.get(b) - counts.get(a) : a.compareTo(b));
        long sum = 0;
        for (String word : ordered) {
            sum = (sum * 31 + word.hashCode() + counts.get(word)) % 1000003;
        }
        return sum;
    }

    static double matrix(int n) {
        double[][] a = new double[n][n];
        for (int i = 0; i < n * n; i++) {
            a[i / n][i % n] = 1.0 / (i + 1);
        }
        double trace = 0;
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                trace += a[i][j] * a[j][i];
            }
        }
        return trace;
    }
}
